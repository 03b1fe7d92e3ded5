"""What a measurement would cost: tokens by tokenizing, operations, memory, and time by rates measured here."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbp import registry
from rbp.choices import BYTES, Dtype
from rbp.errors import DataError, first_line
from rbp.io import parse_json, write_file

if TYPE_CHECKING:  # a plan of published models needs none of them, and they are slow to import
    import torch


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
        """d, of the hidden states: from the head."""
        return self.head // self.vocabulary


@cache
def config_size(folder: Path) -> Size:
    """The size by the configuration in a folder: the model is built without its weights, by code of transformers alone.

    Raises DataError for one that transformers cannot build.
    """
    from transformers import AutoConfig

    where = str(folder / "config.json")
    try:
        kind = parse_json((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
        if entry := registry.entries("architectures").get(str(kind)):
            entry.load()()
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many kinds
        raise DataError(f"cannot build the model: {first_line(error)}", where, _KNOWN) from None
    return size_of(config, "config.json", where)


_KNOWN = "It must be a causal language model that transformers itself knows."


def size_of(config: Any, source: str, where: str) -> Size:
    """The size of the model that a configuration of transformers describes. Raises DataError as `config_size`."""
    import torch
    from transformers import AutoModelForCausalLM

    from rbp.extract.models import non_embedding_params

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
    """Bytes of GPU memory: weights + activations + logits + what CUDA takes.

    weights: total · b, with b bytes for a number; activations: rows · length · 12 · d · b, of the one layer at work
    (the residual 1, query, key and value 3, the inner layer of 4 · d before and after its activation 8); logits: one
    row's, length · V · 4, for the check against the model's own (ranks themselves need a tile of 5 MB).
    """
    each = BYTES[dtype]
    return size.total * each + rows * length * 12 * size.width * each + length * size.vocabulary * 4 + CONTEXT


def cpu_memory(size: Size, dtype: "Dtype", length: int, threads: int) -> float:
    """Bytes of memory on a CPU, where each thread has a row of its own: the same, and the process."""
    return gpu_memory(size, dtype, length, threads) - CONTEXT + PROCESS


def operations(size: Size, read: float, ranked: int, outputs: int | None = None) -> float:
    """2 · S for every token that is read, and 2 · V · d for every one that is ranked; outputs: the logits that count.

    Attention's own products, which grow with the length, are left out: some percent at 512 tokens.
    """
    head = size.head if outputs is None else outputs * size.width
    return 2.0 * (read * size.non_embedding + ranked * head)


def product_rate(device: "torch.device", dtype: "torch.dtype", rows: int, inner: int, columns: int) -> float:
    """Floating-point operations a second of a matrix product, [rows, inner] by [inner, columns]: the best of a few."""
    import torch

    a = torch.ones(rows, inner, device=device, dtype=dtype)
    b = torch.ones(inner, columns, device=device, dtype=dtype)
    return 2 * rows * inner * columns / _best(lambda: (a @ b)[0, 0].item())  # which waits for the device


def ranking_rate(device: "torch.device", dtype: "torch.dtype", rows: int, inner: int, columns: int) -> float:
    """The same operations a second where the products are an output layer's logits, and ranked."""
    import torch

    from rbp.kernel import linear_rank

    drawn = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, inner, generator=drawn).to(device, dtype)
    weight = torch.randn(columns, inner, generator=drawn).to(device, dtype)
    target = torch.zeros(rows, dtype=torch.int64, device=device)
    return (
        2
        * rows
        * inner
        * columns
        / _best(lambda: linear_rank(hidden, weight, target, compiled=False).greater[0].item())
    )


def _best(run: Callable[[], Any]) -> float:
    """The shortest of some runs, in seconds: of three at least, and of as many as a fifth of a second holds."""
    times, end = list[float](), time.perf_counter() + 0.2
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


DAYS = 7  # for which a rate is taken from what was kept


@dataclass(frozen=True)
class Rate:
    """What this machine does with matrices of about a model's shape, and on what that was measured.

    shape: rows, width and columns; threads: of the CPU; product: operations a second of a matrix product; ranking: the
    same where each of the logits is compared and summed too.
    """

    processor: str
    threads: int
    dtype: str
    shape: tuple[int, int, int]
    product: float
    ranking: float
    measured: str

    def __str__(self) -> str:
        on = self.processor + (f", threads: {self.threads}" if self.threads else "")
        return (
            f"{_giga(self.product)} GFLOP/s of a matrix product, {_giga(self.ranking)} where its entries are "
            f"ranked (width {self.shape[1]}, {self.dtype}, {on}, {self.measured})"
        )


def _giga(rate: float) -> str:
    """A rate in 10⁹ a second, in two digits at least."""
    return f"{rate / 1e9:.2g}" if rate < 1e10 else f"{rate / 1e9:,.0f}"


def rates_file() -> Path:
    """Where measured rates are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rbp" / "rates.json"


def measured_rate(size: Size, dtype: "Dtype", device: "torch.device", threads: int | None = None) -> Rate:
    """The rate of this machine for models of about such a width: of the last days, or measured now and kept."""
    import torch

    cuda = device.type == "cuda"
    threads = 0 if cuda else threads or torch.get_num_threads()
    shape = (8192 if cuda else 256, size.width, min(8192, size.vocabulary))
    on = torch.cuda.get_device_name(device) if cuda else _processor()
    today = datetime.now(UTC).date()
    kept = [rate for rate in _kept() if 0 <= (today - date.fromisoformat(rate.measured)).days < DAYS]
    for rate in kept:
        if (rate.processor, rate.threads, rate.dtype, rate.shape) == (on, threads, dtype, shape):
            return rate
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        kind = getattr(torch, dtype)
        rates = product_rate(device, kind, *shape), ranking_rate(device, kind, *shape)
    finally:
        torch.set_num_threads(before)
    found = Rate(on, threads, dtype, shape, *rates, today.isoformat())
    with suppress(OSError):  # then it is measured again the next time
        write_file(rates_file(), json.dumps([asdict(rate) for rate in [*kept, found]], indent=1))
    return found


def _kept() -> list[Rate]:
    """The rates that were kept; none from a file that is missing or malformed."""
    try:
        rates = [Rate(**{**row, "shape": tuple(row["shape"])}) for row in parse_json(rates_file().read_text())]
        return [rate for rate in rates if min(rate.product, rate.ranking) > 0 and date.fromisoformat(rate.measured)]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _processor() -> str:
    """What the processor is called, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


# measured on Pythia-14M and a CPU (bench/results/extraction-cpu.json): the body, a row at a time, at 43,149 tokens/s of
# 2·S against the bare product's 19,463 of 2·V·d; and the sample that is ranked again, as a share of the whole
BODY = 0.41
CHECK = 0.127


def ranking_seconds(size: Size, read: float, ranked: int, rate: Rate, outputs: int | None = None) -> float:
    """How long ranking takes: the body by the product's rate, the output layer by that of ranking, and the check."""
    body = operations(size, read, 0) / (BODY * rate.product)
    return (body + operations(size, 0, ranked, outputs) / rate.ranking) / (1 - CHECK)


@dataclass(frozen=True)
class Cost:
    """What one model on one corpus costs.

    read, ranked: tokens, exactly; flops: operations at least; memory: bytes; seconds: for ranking, by
    `ranking_seconds`; tokenizing: seconds that counting took, which the measurement spends again.
    """

    model: str
    corpus: str
    size: Size
    read: int
    ranked: int
    flops: float
    memory: float
    seconds: float
    tokenizing: float
    rate: Rate


def plan_lines(costs: Sequence[Cost]) -> list[str]:
    """A table as people read it, with the totals and what the times are reckoned with."""
    wide = max(len(f"{cost.model} on {cost.corpus}") for cost in costs)
    lines = [f"{'':{wide}} {'S':>14} {'read':>12} {'ranked':>12} {'operations':>11} {'memory':>9} {'time':>10}"]
    for cost in costs:
        lines.append(
            f"{f'{cost.model} on {cost.corpus}':{wide}} {cost.size.non_embedding:>14,} {cost.read:>12,} "
            f"{cost.ranked:>12,} {cost.flops:>11.2e} {cost.memory / 1e9:>6.1f} GB {_clock(_seconds(cost)):>10}"
        )
    ranked, flops = sum(cost.ranked for cost in costs), sum(cost.flops for cost in costs)
    lines.append(f"in all: {ranked:,} tokens ranked, {flops:.2e} operations, {_clock(sum(map(_seconds, costs)))}")
    lines += [f"Measured here: {rate}." for rate in dict.fromkeys(str(cost.rate) for cost in costs)]
    lines += [
        f"Time: the body at {BODY:.0%} of the product, the output layer as ranked, {CHECK:.0%} for the check; without "
        "the program's start.",
        "The smallest models take longer: not the operations cost time there, but starting each of them.",
    ]
    return lines


def _seconds(cost: Cost) -> float:
    return cost.seconds + cost.tokenizing


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
