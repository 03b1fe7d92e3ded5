"""Estimate what a measurement costs: tokens by tokenizing, operations, memory, and time as it was measured before."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbp import registry
from rbp.choices import BYTES, Dtype
from rbp.errors import DataError, first_line
from rbp.io import parse_json
from rbp.store import MANIFEST, read_manifest


@dataclass(frozen=True)
class Size:
    """A model's size.

    non_embedding: S; total: all parameters, an output layer of its own included; head: the entries of the output layer,
    V · d; vocabulary: V.
    """

    non_embedding: int
    total: int
    head: int
    vocabulary: int

    @property
    def width(self) -> int:
        """Return d, the width of the hidden states, from the head."""
        return self.head // self.vocabulary


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


def size_of(config: Any, where: str) -> Size:
    """Return the size of the model that a configuration describes, built without weights by transformers' code alone.

    Raises DataError for one that transformers cannot build.
    """
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
    numbers = size.total + rows * length * 12 * size.width
    return numbers * BYTES[dtype] + length * size.vocabulary * 4 + CONTEXT


def cpu_memory(size: Size, dtype: "Dtype", length: int, threads: int) -> float:
    """Estimate the bytes of memory on a CPU, where each thread has a row of its own: the same, and the process."""
    return gpu_memory(size, dtype, length, threads) - CONTEXT + PROCESS


def operations(size: Size, read: float, ranked: int, outputs: int | None = None) -> float:
    """Count operations: 2 · S for every token read, 2 · V · d for every token ranked; outputs: the logits that count.

    Attention's own products, which grow with the length, are left out: some percent at 512 tokens.
    """
    head = size.head if outputs is None else outputs * size.width
    return 2.0 * (read * size.non_embedding + ranked * head)


def last_rate(out: Path, model: str, dtype: Dtype, device: str) -> float | None:
    """Return the tokens ranked in a second when `model` was last measured into a store in the folder `out`.

    In the same dtype, on the same type of device; None where it never was.
    """
    rates = []
    for manifest in out.glob(f"*/{MANIFEST}"):
        with suppress(DataError):
            notes, key = (read_manifest(manifest.parent)[name] for name in ("about", "key"))
            same = (notes["model"], key["dtype"], key["device"]) == (model, dtype, device)
            if same and "finished" in notes and notes.get("tokens_per_second"):
                rates.append((notes["finished"], float(notes["tokens_per_second"])))
    return max(rates)[1] if rates else None


@dataclass(frozen=True)
class Cost:
    """The cost of one model on one corpus.

    read, ranked: tokens, exactly; flops: operations at least; memory: bytes; seconds: of ranking, by `last_rate`.
    """

    model: str
    corpus: str
    size: Size
    read: int
    ranked: int
    flops: float
    memory: float
    seconds: float | None


def plan_lines(costs: Sequence[Cost]) -> list[str]:
    """Format the costs as a table, with the totals; the time where a model's last store tells it."""
    wide = max(len(f"{cost.model} on {cost.corpus}") for cost in costs)
    lines = [f"{'':{wide}} {'S':>14} {'read':>12} {'ranked':>12} {'operations':>11} {'memory':>9} {'time':>10}"]
    for cost in costs:
        lines.append(
            f"{f'{cost.model} on {cost.corpus}':{wide}} {cost.size.non_embedding:>14,} {cost.read:>12,} "
            f"{cost.ranked:>12,} {cost.flops:>11.2e} {cost.memory / 1e9:>6.1f} GB "
            f"{'?' if cost.seconds is None else _clock(cost.seconds):>10}"
        )
    ranked, flops = sum(cost.ranked for cost in costs), sum(cost.flops for cost in costs)
    lines.append(f"in all: {ranked:,} tokens ranked, {flops:.2e} operations")
    return [*lines, "Time: at the rate of the model's last rank store here. ?: there is none."]


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
