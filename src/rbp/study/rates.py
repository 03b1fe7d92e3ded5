"""How fast a study is assumed to go: what the data sheets say, what was measured, and what is only assumed."""

import json
from dataclasses import dataclass
from pathlib import Path

from rbp.errors import DataError
from rbp.paths import ROOT
from rbp.study.file import Dtype, GpuTable

MEASURED = ROOT / "bench" / "results" / "study-cpu.json"
BYTES: dict[Dtype, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

# NVIDIA's data sheet of the A100 80 GB, dense, without TF32, which ranks do not use: floating-point operations a second
A100: dict[Dtype, float] = {"float64": 9.7e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}
CPU_CORE = 50e9  # the same of one CPU core, for the time limits of jobs alone: about half of what a product reaches
STORAGE = 1e9  # bytes a second that a shared file system gives one reader: assumed


@dataclass(frozen=True)
class Rates:
    """What a plan reckons with.

    flops: a second, on one GPU, reached (the peak times the share assumed); read: bytes of weights a second from
    storage (assumed); digest: bytes of weights a second through SHA-256, tokenize: tokens a second, write: ranks a
    second into a store, start: seconds until a job has imported what it needs (these measured, by bench/study.py).
    """

    flops: float
    read: float
    digest: float
    tokenize: float
    write: float
    start: float


def rates(gpu: GpuTable, dtype: Dtype, measured: Path = MEASURED) -> Rates:
    """The rates for a GPU and a dtype. Raises DataError if the measured ones are missing or malformed."""
    try:
        content = json.loads(measured.read_bytes())["rates"]
        own = {name: float(content[name]) for name in ("digest", "tokenize", "write", "start")}
    except (OSError, ValueError, KeyError, TypeError):
        remedy = f"Write it again: python -m bench.study --json {measured.name}."
        raise DataError("this is no result of the study's benchmark", str(measured), remedy) from None
    return Rates(flops=(gpu.flops or A100[dtype]) * gpu.share, read=STORAGE, **own)
