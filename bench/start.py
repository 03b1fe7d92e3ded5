"""`python -m bench.start`: whole processes that rank the same tokens, `rbp extract` and a plain script.

By default one page (511 tokens) is ranked on the CPU by a model of Pythia-14M's shape with random weights. With
MODEL.gguf and HUMANEVAL.jsonl, its first 8,192 tokens are ranked, in bfloat16 too, of the weights dequantized to
safetensors; llama.cpp, where `llama_cpp` is installed, takes the file itself, and of it the evaluation alone is timed.
`ranking` are tokens a second while ranks are made; `share` is of the rate of a bare matrix product in the same dtype;
`moved` is the share of ranks that differ from ours in float32. The plain script is `bench/plain.py`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from bench.common import Results, circumstances, in_turn, report, spread
from bench.extraction import LENGTH, PYTHIA_14M, write_model_and_text
from companion.project import ROOT
from rbp.extract.extraction import quiet
from rbp.extract.plan import Size, operations, read_config, size_of
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import RankStore, open_store, store_folders
from rbp.texts.corpora import open_corpus
from rbp.texts.protocol import RowPlan, plan_rows, protocol

TOKENS = 8192  # of HumanEval
PLAIN, OURS, LLAMA = "plain script", "rbp extract, ", "llama.cpp, evaluation alone"


class Subject(NamedTuple):
    """What is ranked: a model, a text, how many tokens, in which dtypes, and the GGUF file where it is one."""

    name: str
    model: Path
    text: Path
    tokens: int
    dtypes: tuple[str, ...]
    gguf: str | None = None


def one_page(folder: Path) -> Subject:
    """Write a model with random weights and one page."""
    places = write_model_and_text(folder, PYTHIA_14M._replace(documents=1), "cpu")
    return Subject(PYTHIA_14M.name, *places, LENGTH - 1, ("float32",))


def real_model(folder: Path, gguf: str, corpus: str) -> Subject:
    """Write the dequantized weights of a GGUF file, and the text of HumanEval."""
    files, (model, text) = find_model(str(Path(gguf).resolve())), (folder / "model", folder / "text.jsonl")
    load_tokenizer(files).save_pretrained(model)
    load_model(files, "float32", torch.device("cpu")).model.save_pretrained(model)
    documents = open_corpus(corpus, ("prompt", "canonical_solution")).documents
    text.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents))
    return Subject(Path(gguf).name, model, text, TOKENS, ("float32", "bfloat16"), str(files.gguf))


def measured(gguf: str | None, corpus: str | None, rounds: int) -> Results:
    """Time every way in turn, round by round; of a GGUF file, compare the ranks and the rates of the last round."""
    with TemporaryDirectory() as place, quiet():
        folder = Path(place)
        subject = real_model(folder, gguf, corpus) if gguf and corpus else one_page(folder)
        reading = protocol("windows", length=LENGTH, context=1, tokens=subject.tokens)
        plan = plan_rows(open_corpus(str(subject.text)), load_tokenizer(find_model(str(subject.model))), reading)
        script = [sys.executable, "-m", "bench.plain", str(subject.model), str(subject.text), str(subject.tokens)]
        ways: dict[str, Callable[[], object]] = {PLAIN: partial(process, script)}
        ways |= {OURS + dtype: partial(by_rbp, subject, dtype, folder / dtype) for dtype in subject.dtypes}
        ranks: dict[str, Any] = {}
        if subject.gguf and find_spec("llama_cpp"):
            ways[LLAMA] = by_llama(subject.gguf, plan, ranks)
        seconds = in_turn(ways, rounds)
        rows: list[Results] = [{"way": name} | spread(times, seconds[PLAIN]) for name, times in seconds.items()]
        if subject.gguf:
            rates = {LLAMA: {"ranking": plan.tokens / median(seconds[LLAMA])}} if ranks else {}
            for dtype in subject.dtypes:
                store = open_store(store_folders([folder / dtype])[0])
                ranks[OURS + dtype] = store.ranks()["greater"].to_numpy() + 1
                rates[OURS + dtype] = rates_of(store, plan, size_of(read_config(subject.model), str(subject.model)))
            exact = ranks[OURS + "float32"]
            for row in rows[1:]:
                moved = ranks[row["way"]]
                row |= {"rbp_1": float((moved <= 1).mean()), "moved": float((moved != exact).mean())}
                row |= rates[row["way"]]
    about = {"name": subject.name, "tokens": plan.tokens, "rounds": rounds}
    return circumstances("cpu") | about | {"rows": rows}


def process(command: list[str]) -> None:
    """Run a process in the checkout. Raises CalledProcessError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)  # noqa: S603  # our own


def by_rbp(subject: Subject, dtype: str, out: Path) -> None:
    """Rank by `rbp extract` into a fresh folder."""
    shutil.rmtree(out, ignore_errors=True)
    reading = f"--protocol windows --length {LENGTH} --context 1 --tokens {subject.tokens} --dtype {dtype}".split()
    given = ["--model", str(subject.model), "--corpus", str(subject.text), "--out", str(out)]
    process([sys.executable, "-m", "rbp.cli", "extract", *given, *reading])


def rates_of(store: RankStore, plan: RowPlan, size: Size) -> Results:
    """Return the tokens a second while ranks were made, and the share of a bare matrix product's operations."""
    rate = store.manifest["about"]["tokens_per_second"]
    needed = operations(size, plan.tokens_read, plan.tokens) / plan.tokens
    return {
        "ranking": rate,
        "share": rate * needed / product_rate(getattr(torch, store.manifest["key"]["dtype"]), size.width),
    }


def product_rate(dtype: torch.dtype, width: int, rows: int = 256, columns: int = 8192) -> float:
    """Measure the operations a second of a bare matrix product, the best of nine."""
    one, other = torch.randn(rows, width, dtype=dtype), torch.randn(width, columns, dtype=dtype)
    return 2 * rows * width * columns / min(in_turn({"product": lambda: one @ other}, 9)["product"])


def by_llama(gguf: str, plan: RowPlan, ranks: dict[str, Any]) -> Callable[[], None]:
    """Make the way that ranks by llama.cpp, which loads the file before; it leaves its ranks in `ranks`."""
    from llama_cpp import Llama

    threads = {"n_threads": torch.get_num_threads(), "n_threads_batch": torch.get_num_threads()}
    llama = Llama(gguf, n_ctx=LENGTH, n_batch=LENGTH, logits_all=True, verbose=False, **threads)

    def run() -> None:
        counts = []
        for row in plan.rows:
            llama.reset()
            llama.eval(row.ids.tolist())
            logits = llama.scores[row.scored - 1]
            counts.append((logits > np.take_along_axis(logits, row.ids[row.scored, None], 1)).sum(1) + 1)
        ranks[LLAMA] = np.concatenate(counts)

    return run


if __name__ == "__main__":
    report(measured, __doc__ or "", "gguf", "corpus")
