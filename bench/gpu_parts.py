"""Parts of `python -m bench.gpu` that take whole programs: what each asks of a GPU, or, tiny, of the CPU."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch

from bench import extraction
from bench.common import Question
from bench.gpu_models import LENGTH, TINY, Shape
from rbp.core.paths import ROOT
from rbp.ladder import training
from rbp.ladder.making import Making
from rbp.ladder.ranking import evaluation_documents
from rbp.ladder.recipe import read_ladders
from rbp.ladder.text import on_own_text
from rbp.ladder.workspace import Workspace
from rbp.ranks.extraction import Settings, extract, extract_on_gpus, gpus
from rbp.ranks.forward import Ranker
from rbp.ranks.protocols import protocol
from rbp.ranks.store import Store, open_store

Found = dict[str, Any]
PYTHIA_14M = extraction.SHAPES["cpu"]._replace(documents=2048)
STEPS = 20  # that both devices train, to be compared
NEAR = 1e-3  # nats by which −ln p may differ between two devices, in float32


def tests(tiny: bool) -> list[Question]:
    """The kernel's own tests, which otherwise its interpreter runs."""
    return [Question("tests", partial(_tests, tiny))]


def devices(tiny: bool) -> list[Question]:
    """One measurement in float32 on the CPU and on the GPU: ranks may differ in last bits, and no further."""
    return [Question("devices", partial(_devices, tiny))]


def several(tiny: bool) -> list[Question]:
    """A model spread over the GPUs, where there are two; tiny: over memory and disk. Its ranks are those on one."""
    return [Question("several GPUs", partial(_several, tiny))]


def memory(tiny: bool) -> list[Question]:
    """A batch that memory does not allow is halved, for real on a GPU, and the ranks are those of small batches."""
    return [Question("memory", partial(_memory, tiny))]


def two(tiny: bool) -> list[Question]:
    """Two processes on one GPU fill one store: it is that of one process."""
    return [Question("two processes", partial(_two, tiny))]


def ladder(tiny: bool) -> list[Question]:
    """The smallest rung of every family, trained on the documents that the ladder is evaluated on."""
    tokens, names = (8192, ["neox"]) if tiny else (400_000, ["neox", "lstm", "mamba2"])
    return [Question(name, partial(_ladder, name, tokens, _device(tiny))) for name in names]


def _tests(tiny: bool) -> Found:
    import hypothesis  # noqa: F401  # which the tests import: without it they are left out

    file = ROOT / "tests" / "ranks" / "kernel" / "triton_cases.py"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::RuntimeWarning",
        str(file),
    ]
    command += ["-k", "smallest or float64"] if tiny else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"said": lines[-1], "failed": failed or ([lines[-1]] if done.returncode else [])}


def _devices(tiny: bool) -> Found:
    shape = TINY if tiny else PYTHIA_14M._replace(documents=16)
    with TemporaryDirectory() as folder:
        model, corpus = extraction.make(Path(folder), shape, "cpu")
        ours = Settings(device="cpu"), Settings(device=_device(tiny), backend="reference" if tiny else "auto")
        one, other = (_ranks(_extract(model, corpus, shape, Path(folder) / str(i), s)) for i, s in enumerate(ours))
    error = float((one["nll"] - other["nll"]).abs().max())
    return {
        "tokens": len(one),
        "differ": _differ(one, other),
        "places": int((one["greater"] - other["greater"]).abs().max()),  # by which one rank differs at most
        "nll_error": error,
        "failed": [f"−ln p differs by {error:.2g} nats"] if error > NEAR else [],
    }


def _several(tiny: bool) -> Found:
    if not tiny and torch.cuda.device_count() < 2:
        return {"left_out": "there is one GPU"}
    import accelerate  # noqa: F401  # which spreads it: without it this is left out

    shape = TINY if tiny else PYTHIA_14M._replace(documents=16)
    one = Settings(device=_device(tiny))
    with TemporaryDirectory() as folder:
        model, corpus = extraction.make(Path(folder), shape, "cpu")
        some = patch(
            "rbp.ranks.extraction.limits", lambda _: {"cpu": (model / "model.safetensors").stat().st_size // 2}
        )
        with some if tiny else nullcontext():
            spread = _extract(model, corpus, shape, Path(folder) / "spread", Settings(devices="auto"))
        alone = _ranks(_extract(model, corpus, shape, Path(folder) / "one", one))
        places, ranks = Store(spread).manifest["about"].get("places", []), _ranks(spread)
    error = float((ranks["nll"] - alone["nll"]).abs().max())
    failed = [f"−ln p differs by {error:.2g} nats"] if error > NEAR else []
    failed += [] if places else ["the model was not spread"]
    return {"places": places, "differ": _differ(alone, ranks), "nll_error": error, "failed": failed}


def _memory(tiny: bool) -> Found:
    rows = 16 if tiny else 256
    shape = TINY._replace(documents=rows) if tiny else PYTHIA_14M._replace(documents=rows)
    few, many = (Settings(dtype=_dtype(tiny), device=_device(tiny), batch=batch) for batch in (4, rows))
    with TemporaryDirectory() as folder:
        model, corpus = extraction.make(Path(folder), shape, _device(tiny))
        places = (Path(folder) / f"{i}" for i in range(4))
        _extract(model, corpus, shape, next(places), few)  # what is made once is made
        least, small = _peak(lambda: _extract(model, corpus, shape, next(places), few))
        most, _ = _peak(lambda: _extract(model, corpus, shape, next(places), many))
        with _limited((least + most) // 2, rows // 4):
            halved = _extract(model, corpus, shape, next(places), many)
        halvings = Store(halved).manifest["about"]["halvings"]
        differ = _differ(_ranks(small), _ranks(halved))
    found = {"peak_mb": [least / 1e6, most / 1e6], "batch": rows, "halvings": halvings, "differ": differ}
    return found | {"failed": [] if halvings else ["memory was short, and no batch was halved"]}


def _two(tiny: bool) -> Found:
    shape = TINY._replace(documents=200) if tiny else PYTHIA_14M
    settings = Settings(dtype=_dtype(tiny), device=_device(tiny))
    with TemporaryDirectory() as folder:
        model, corpus = extraction.make(Path(folder), shape, _device(tiny))
        start = time.perf_counter()
        alone = _extract(model, corpus, shape, Path(folder) / "one", settings)
        between = time.perf_counter()
        card = "" if tiny else gpus()[0]
        how = protocol("authors", length=LENGTH, documents=shape.documents)
        extract_on_gpus([str(model)], [str(corpus)], how, Path(folder) / "two", settings, [card, card])
        end = time.perf_counter()
        (shared,) = (Path(folder) / "two").iterdir()
        differ = _differ(_ranks(alone), _ranks(shared))
    found = {"differ": differ, "one": between - start, "two": end - between}  # seconds
    return found | {"failed": [f"{differ:.2%} of the ranks differ"] if differ else []}


def _ladder(family: str, tokens: int, device: str) -> Found:
    with TemporaryDirectory() as folder:
        texts, place = Path(folder) / "texts", Workspace(Path(folder) / "ladders")
        texts.mkdir()
        for i, document in enumerate(evaluation_documents("wikipedia") + evaluation_documents("auslegal")):
            (texts / f"{i:03}.txt").write_text(document.text)
        command = [sys.executable, "-m", "rbp.cli", "ladder", "train", "--family", family, "--rungs", "10k"]
        command += ["--seeds", "0", "--texts", str(texts), "--tokens", str(tokens), "--device", device]
        subprocess.run([*command, "--out", str(place.folder)], cwd=ROOT, check=True)  # noqa: S603
        ladders, base = read_ladders()
        making = Making(ladders.up_to(tokens), on_own_text(place, base), place)
        ((line, budget, about),) = making.finished(making.choose([family]))
        course, own = making.course(line, budget), place / "training" / line.at(budget)
        beside = training.Run(course, making.rows(line), Path(folder) / "beside")
        steps = min(STEPS, course.steps)
        apart = float(np.abs(np.subtract(training.losses(own)[:steps], [beside.step() for _ in range(steps)])).max())
    wanted = ("seconds", "tokens_per_second", "loss", "size", "processors")
    failed = [f"losses differ by {apart:.2g} nats in {steps} steps"] if apart > 10 * NEAR else []
    found = {"name": about["name"], "beside_cpu": apart, "steps": steps, "failed": failed}
    return found | {name: about[name] for name in wanted}


def _device(tiny: bool) -> str:
    return "cpu" if tiny else "cuda"


def _dtype(tiny: bool) -> Any:
    return "float32" if tiny else "bfloat16"


def _extract(model: Path, corpus: Path, shape: Shape, out: Path, settings: Settings) -> Path:
    how = replace(protocol("authors", length=LENGTH, documents=shape.documents), pack=256)
    with redirect_stderr(StringIO()):  # the progress
        (store,) = extract([str(model)], [str(corpus)], how, out, settings)
    return store


def _ranks(store: Path) -> pd.DataFrame:
    return open_store(store).ranks().sort_values(["document", "position"], ignore_index=True)


def _differ(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """The share of ranks that differ."""
    columns = ["greater", "equal"]
    return float((one[columns] != other[columns]).any(axis=1).mean())


def _peak(run: Callable[[], Path]) -> tuple[int, Path]:
    """The memory, in bytes, that a GPU's allocator takes while something runs (0 without one), and what it gives."""
    if not torch.cuda.is_available():
        return 0, run()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    found = run()
    return torch.cuda.max_memory_reserved(), found


@contextmanager
def _limited(limit: int, rows: int) -> Iterator[None]:
    """While this process may take `limit` bytes of the GPU; without one, while batches of more rows are refused."""
    if limit:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    ranks = Ranker._ranks

    def short(self: Ranker, some: Any) -> Any:
        if len(some) > rows:
            raise torch.OutOfMemoryError("as on a GPU")
        return ranks(self, some)

    Ranker._ranks = short
    try:
        yield
    finally:
        Ranker._ranks = ranks
