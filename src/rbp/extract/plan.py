"""Estimate what a measurement costs: tokens by tokenizing, operations, memory, and time by rates measured here."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbp import registry
from rbp.choices import BYTES, Dtype
from rbp.errors import DataError, first_line
from rbp.io import parse_json

if TYPE_CHECKING:  # a plan of published models needs none of them, and they are slow to import
    import torch

    from rbp.texts.protocol import Row


@dataclass(frozen=True)
class Size:
    """A model's size.

    non_embedding: S; total: all parameters, an output layer of its own included; head: the entries of the output layer,
    V · d; vocabulary: V; source: where that is known from. For the published models head is their embedding parameters:
    exact for Pythia and Qwen2.5, and 2 to 9% too much for GPT-2 and OPT, whose learned positions are among them; and
    total counts the output layer apart from the embedding, which it is not in GPT-2, OPT and the smaller Qwen2.5.
    """

    non_embedding: int
    total: int
    head: int
    vocabulary: int
    source: str

    @property
    def width(self) -> int:
        """Return d, the width of the hidden states, from the head."""
        return self.head // self.vocabulary


@cache
def config_size(folder: Path) -> Size:
    """Return the size by the configuration in a folder, of a model built without weights by transformers' code alone.

    Raises DataError for one that transformers cannot build.
    """
    return size_of(read_config(folder), "config.json", str(folder / "config.json"))


def read_config(folder: Path) -> Any:
    """Read the configuration in a folder. Raises DataError for one that transformers does not know."""
    from transformers import AutoConfig

    where = str(folder / "config.json")
    try:
        kind = parse_json((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
        if entry := registry.entries("architectures").get(str(kind)):
            entry.load()()
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many kinds
        raise DataError(f"cannot build the model: {first_line(error)}", where, _KNOWN) from None


_KNOWN = "It must be a causal language model that transformers itself knows."


def size_of(config: Any, source: str, where: str) -> Size:
    """Return the size of the model that a transformers configuration describes. Raises DataError as `config_size`."""
    import torch
    from transformers import AutoModelForCausalLM

    from rbp.models.sizes import non_embedding_params

    try:
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
        text = config.get_text_config()
        return Size(
            non_embedding=non_embedding_params(model),
            total=sum(parameter.numel() for parameter in model.parameters()),
            head=int(text.vocab_size) * int(text.hidden_size),
            vocabulary=int(text.vocab_size),
            source=source,
        )
    except Exception as error:  # transformers raises many kinds
        raise DataError(f"cannot build the model: {first_line(error)}", where, _KNOWN) from None


ROWS = 32  # at a time on a GPU, the default of `rbp extract`
CONTEXT = 1e9  # bytes that CUDA and PyTorch take for themselves: assumed
PROCESS = 1.2e9  # bytes of Python, PyTorch and transformers in a job: about twice what they take


def gpu_memory(size: Size, dtype: "Dtype", length: int, rows: int = ROWS) -> float:
    """Estimate the bytes of GPU memory: weights + activations + logits + what CUDA takes.

    weights: total · b, with b bytes for a number; activations: rows · length · 12 · d · b, of the one layer at work
    (the residual 1, query, key and value 3, the inner layer of 4 · d before and after its activation 8); logits: one
    row's, length · V · 4, for the check against the model's own (ranks themselves need a tile of 5 MB).
    """
    each = BYTES[dtype]
    return size.total * each + rows * length * 12 * size.width * each + length * size.vocabulary * 4 + CONTEXT


def cpu_memory(size: Size, dtype: "Dtype", length: int, threads: int) -> float:
    """Estimate the bytes of memory on a CPU, where each thread has a row of its own: the same, and the process."""
    return gpu_memory(size, dtype, length, threads) - CONTEXT + PROCESS


def operations(size: Size, read: float, ranked: int, outputs: int | None = None) -> float:
    """Count operations: 2 · S for every token read, 2 · V · d for every token ranked; outputs: the logits that count.

    Attention's own products, which grow with the length, are left out: some percent at 512 tokens.
    """
    head = size.head if outputs is None else outputs * size.width
    return 2.0 * (read * size.non_embedding + ranked * head)


# measured on SmolLM2, Llama and GPT-NeoX of 1 to 134 million parameters and a CPU with AVX-512
LOADED = 7e-8  # seconds for each number that a GGUF file's quantization has to be undone of
PROBED = 12  # how often the check before the work reads a short row
COMPILED, COMPILING = 0.3, 3.3  # what compiling leaves of the time of counting; and takes, where the code is kept


@dataclass(frozen=True)
class Rate:
    """The seconds that one thread of this machine, or its GPU, takes for a model.

    read: a token, through all layers; product, ranked: a token's logits, and these compared and summed; again: a
    token's logits as the check forms and counts them. threads: how many work side by side.
    """

    read: float
    product: float
    ranked: float
    again: float
    threads: int


def measured_rate(
    config: Any, size: Size, dtype: "Dtype", device: "torch.device", rows: int, length: int, threads: int
) -> Rate:
    """Measure the rate of this machine now: in processor time on a CPU, so that other programs do not matter.

    rows, length: how many rows of which length are read at once.
    """
    import torch

    from rbp.extract.forward import PLACES, rank_logits
    from rbp.kernel import linear_rank

    kind, before, columns = getattr(torch, dtype), torch.get_num_threads(), min(8192, size.vocabulary)
    generator, count = torch.Generator().manual_seed(0), 8192 if device.type == "cuda" else 512
    hidden = torch.randn(count, size.width, generator=generator).to(device, kind)
    weight = torch.randn(columns, size.width, generator=generator).to(device, kind)
    target = torch.zeros(count, dtype=torch.int64, device=device)
    logits = hidden[:PLACES] @ weight.T
    ways: list[tuple[int, Callable[[], Any]]] = [
        (count, lambda: hidden @ weight.T),
        (count, lambda: linear_rank(hidden, weight, target, compiled=False)),
        (PLACES, lambda: rank_logits(logits, target[:PLACES])),
    ]
    torch.set_num_threads(1)  # a row is read by one
    try:
        product, ranked, counted = (_best(run, device) * size.vocabulary / columns / n for n, run in ways)
        read = _reading_seconds(config, kind, device, rows, length)
    finally:
        torch.set_num_threads(before)
    return Rate(read or 2 * size.non_embedding * product / size.head / 2, product, ranked, product + counted, threads)


def _reading_seconds(config: Any, kind: "torch.dtype", device: "torch.device", rows: int, length: int) -> float | None:
    """Measure seconds per token by models of one and of two of the layers, without weights; None without layers."""
    import torch
    from transformers import AutoModelForCausalLM

    ids, times = torch.zeros(rows, length, dtype=torch.int64, device=device), list[float]()
    with suppress(Exception):  # of a configuration that is not cut so, of many kinds
        for layers in (1, 2):
            small = deepcopy(config)
            text = small.get_text_config()
            text.num_hidden_layers, text.vocab_size, text.pad_token_id = layers, 8, None
            if kinds := getattr(text, "layer_types", None):
                text.layer_types = kinds[:layers]
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(small, dtype=kind, trust_remote_code=False)  # type: ignore[no-untyped-call]
            model = model.to_empty(device=device).eval()
            with torch.inference_mode():
                for tensor in (*model.parameters(), *model.buffers()):
                    tensor.zero_()
                times.append(_best(partial(model, input_ids=ids, use_cache=False), device))
        one, two = times
        layers = int(config.get_text_config().num_hidden_layers)
        return (one + (layers - 1) * max(0.0, two - one)) / (rows * length)
    return None


def _best(run: Callable[[], Any], device: "torch.device") -> float:
    """Return the shortest of as many runs as a fifth of a second holds, in seconds: of this thread's work on a CPU."""
    import torch

    cuda = device.type == "cuda"
    clock, times, end = (time.perf_counter if cuda else time.thread_time), list[float](), time.perf_counter() + 0.2
    while not times or time.perf_counter() < end:
        start = clock()
        run()
        if cuda:
            torch.cuda.synchronize(device)
        times.append(clock() - start)
    return min(times)


def ranking_seconds(rows: "Sequence[Row]", size: Size, rate: Rate, outputs: int) -> float:
    """Estimate how long ranking takes: reading, output layer, the check before the work, the check of a sample."""
    from rbp.extract.probe import SHORT
    from rbp.extract.verify import ROWS as LEAST
    from rbp.extract.verify import SHARE
    from rbp.kernel import compiling_pays

    read, ranked = sum(len(row.ids) for row in rows), sum(len(row.scored) for row in rows)
    compiled = compiling_pays(ranked * outputs)
    each = rate.product + (rate.ranked - rate.product) * (COMPILED if compiled else 1)
    share = min(1.0, max(SHARE, LEAST / len(rows)))
    probed = max(len(row.ids) for row in rows) + PROBED * SHORT
    seconds = (read * (1 + share) + probed) * rate.read
    seconds += ranked * (each * outputs / size.vocabulary + share * rate.again) + 2 * SHORT * rate.again
    return seconds / min(rate.threads, len(rows)) + COMPILING * compiled


@dataclass(frozen=True)
class Cost:
    """The cost of one model on one corpus.

    read, ranked: tokens, exactly; flops: operations at least; memory: bytes; seconds: of loading and ranking, by
    `ranking_seconds`; measuring: processor time spent on these estimates, which ranking does not take.
    """

    model: str
    corpus: str
    size: Size
    read: int
    ranked: int
    flops: float
    memory: float
    seconds: float
    measuring: float


def plan_lines(costs: Sequence[Cost], spent: float) -> list[str]:
    """Format the costs as a table, with the totals.

    spent: processor time of the program until here, which ranking takes too, but for what measuring took.
    """
    start = spent - sum(cost.measuring for cost in costs)
    wide = max(len(f"{cost.model} on {cost.corpus}") for cost in costs)
    lines = [f"{'':{wide}} {'S':>14} {'read':>12} {'ranked':>12} {'operations':>11} {'memory':>9} {'time':>10}"]
    for cost in costs:
        lines.append(
            f"{f'{cost.model} on {cost.corpus}':{wide}} {cost.size.non_embedding:>14,} {cost.read:>12,} "
            f"{cost.ranked:>12,} {cost.flops:>11.2e} {cost.memory / 1e9:>6.1f} GB {_clock(cost.seconds):>10}"
        )
    ranked, flops = sum(cost.ranked for cost in costs), sum(cost.flops for cost in costs)
    seconds = start + sum(cost.seconds for cost in costs)
    lines.append(f"in all: {ranked:,} tokens ranked, {flops:.2e} operations, {_clock(seconds)}")
    return [
        *lines,
        f"Time: by layers and products that ran here just now, without other programs; {_clock(start)} to start.",
        f"Expect from {1 / OFF:.0%} to {OFF:.0%} of it.",
    ]


OFF = 1.5  # how far such times were off, at most, where they were compared


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
