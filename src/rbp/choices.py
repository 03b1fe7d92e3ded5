"""The settings of a measurement, and its share of the work: checked before PyTorch is imported, which takes seconds."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from rbp.errors import ParameterError

Dtype = Literal["float32", "bfloat16", "float16", "float64"]
Backend = Literal["auto", "reference", "blocked", "tiles", "triton"]
Rounding = Literal["bfloat16"]
Vocabulary = int | Literal["all", "tokenizer"]

BYTES: dict[Dtype, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def known_dtype(dtype: object) -> Dtype:
    """Return the name of a dtype, given by name or as one of PyTorch. Raises ParameterError for any other."""
    return _among(str(dtype).removeprefix("torch."), Dtype, "dtype", "--dtype")  # type: ignore[return-value]


def known_backend(name: str) -> Backend:
    """Return the name of a backend. Raises ParameterError for any other."""
    return _among(name, Backend, "backend", "backend")  # type: ignore[return-value]


def _among(name: str, names: object, noun: str, where: str) -> str:
    if name not in get_args(names):
        raise ParameterError(f"unknown {noun} {name!r}", where, f"There is: {', '.join(get_args(names))}.")
    return name


def known_device(name: str) -> str:
    """Return the name of a device that there might be. Raises ParameterError for any other."""
    if not re.fullmatch(r"auto|spread|(cpu|cuda)(:\d+)?", name):
        remedy = "Give auto, cpu, cuda, cuda:1 and so on, or spread."
        raise ParameterError(f"there is no device {name!r}", "--device", remedy)
    return name


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement. Raises ParameterError for a value that none of them takes.

    dtype: of weights and hidden states; device: "auto", "cpu", "cuda", "cuda:1", …, or "spread", which spreads a model
    over all GPUs, memory and disk; backend, round_logits: of `linear_rank`; batch: rows at a time (None: by the
    device); vocabulary: the logits that count; fields, prompt: of corpus files; family: the label of the models (None:
    the paper's family, or the model type).
    """

    dtype: Dtype = "float32"
    device: str = "auto"
    backend: Backend = "auto"
    batch: int | None = None
    vocabulary: Vocabulary = "all"
    round_logits: Rounding | None = None
    fields: tuple[str, ...] = ()
    prompt: str | None = None
    family: str | None = None

    def __post_init__(self) -> None:
        known_dtype(self.dtype)
        known_device(self.device)
        known_backend(self.backend)
        if self.batch is not None and self.batch < 1:
            raise ParameterError(f"a batch has at least 1 row, not {self.batch}", "--batch", "Give more.")
        if isinstance(self.vocabulary, str) and self.vocabulary not in ("all", "tokenizer"):
            fault = f"unknown vocabulary {self.vocabulary!r}"
            raise ParameterError(fault, "--vocab", "Give all, tokenizer, or a number.")
        if self.round_logits not in (None, "bfloat16"):
            fault = f"cannot round logits to {self.round_logits!r}"
            raise ParameterError(fault, "--round-logits", "Give bfloat16.")


def check_shard(shard: tuple[int, int]) -> tuple[int, int]:
    """Return a shard (i, n), which counts from 1. Raises ParameterError where i is not one of n."""
    if not 1 <= shard[0] <= shard[1]:
        raise ParameterError(f"there is no shard {shard[0]} of {shard[1]}", "--shard", "Give I/N with 1 ≤ I ≤ N.")
    return shard
