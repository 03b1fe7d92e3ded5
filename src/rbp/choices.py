"""Dtypes, backends, devices and shards: checked before PyTorch is imported, which takes seconds."""

import re
from typing import Literal, get_args

from rbp.errors import ParameterError

Dtype = Literal["float32", "bfloat16", "float16", "float64"]
Backend = Literal["auto", "reference", "blocked", "tiles", "triton"]

BYTES: dict[Dtype, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def known_dtype(dtype: object) -> Dtype:
    """Return the name of a dtype, given by name or as one of PyTorch. Raises ParameterError for any other."""
    name = str(dtype).removeprefix("torch.")
    if name not in get_args(Dtype):
        raise ParameterError(f"unknown dtype {name!r}", "--dtype", f"There is: {', '.join(get_args(Dtype))}.")
    return name  # type: ignore[return-value]


def known_backend(name: str) -> Backend:
    """Return the name of a backend. Raises ParameterError for any other."""
    if name not in get_args(Backend):
        raise ParameterError(f"unknown backend {name!r}", "backend", f"There is: {', '.join(get_args(Backend))}.")
    return name  # type: ignore[return-value]


def known_device(name: str) -> str:
    """Return the name of a device that there might be. Raises ParameterError for any other."""
    if not re.fullmatch(r"auto|(cpu|cuda)(:\d+)?", name):
        raise ParameterError(f"there is no device {name!r}", "--device", "Give auto, cpu, cuda, or cuda:1 and so on.")
    return name


def check_shard(shard: tuple[int, int]) -> tuple[int, int]:
    """Return a shard (i, n), which counts from 1. Raises ParameterError where i is not one of n."""
    if not 1 <= shard[0] <= shard[1]:
        raise ParameterError(f"there is no shard {shard[0]} of {shard[1]}", "--shard", "Give I/N with 1 ≤ I ≤ N.")
    return shard
