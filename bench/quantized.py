"""`python -m bench.quantized MODEL.gguf CORPUS`: `rbp compare` of quantized files beside llama.cpp's own numbers.

llama.cpp (`llama_cpp`, on the path) quantizes the file again, to Q8_0 and Q4_0. `rbp extract` ranks each file,
dequantized to float32; llama.cpp evaluates the same tokens in the same windows of 512. Both compare the new files
with the file as given. `engines` compares llama.cpp with `rbp` on the same file, and on a file whose weights are the
same in float32 (F32). Files and stores stay in `runs/quantized`. A store's `bytes` are those of all its files, for
each token.
"""

import argparse
import ctypes
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from bench.common import Results, circumstances
from bench.extraction import LENGTH
from bench.start import process
from companion.project import ROOT
from rbp.api import compare
from rbp.io import write_json
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer
from rbp.store import store_folders
from rbp.texts.corpora import open_corpus
from rbp.texts.protocol import Row, plan_rows, protocol

FOLDER = ROOT / "runs" / "quantized"
MEASURES = ("perplexity", "change", "same_top", "mean_dp", "rms_dp")


def measured(gguf: Path, corpus: str, tokens: int) -> Results:
    """Rank and evaluate the file, the two made of it, and its weights in float32."""
    import llama_cpp

    reading = protocol("windows", length=LENGTH, context=1, tokens=tokens)
    rows = plan_rows(open_corpus(corpus), load_tokenizer(find_model(str(gguf))), reading).rows
    kinds = {"Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = {"given": gguf}
    for name, kind in (kinds | {"F32": llama_cpp.LLAMA_FTYPE_ALL_F32}).items():
        files[name] = FOLDER / f"{name}.gguf"
        quantize(gguf, files[name], kind)
    stores = {name: ranked(files[name], corpus, tokens, FOLDER / "ranks" / name) for name in ("given", *kinds)}
    llama = {name: evaluated(path, rows) for name, path in files.items()}
    about = {"bytes": folder_bytes(stores["given"]) / tokens}
    table = []
    for name in kinds:
        ours = compare(stores["given"], stores[name], k=[1])
        once, values = ours.units.once, ours.measures.set_index("metric")["difference"]
        table.append(
            {"file": name, "megabytes": files[name].stat().st_size / 1e6}
            | {"rbp": {"perplexity": float(np.exp(ours.table["b"].iloc[0])), "change": values["perplexity"]}}
            | {"llama.cpp": between(llama["given"][once], llama[name][once])}
        )
        table[-1]["rbp"] |= {measure: float(values[measure]) for measure in MEASURES[2:]}
        about |= {
            "tokens": len(once),
            "counted": int(once.sum()),
            "perplexity": float(np.exp(ours.table["a"].iloc[0])),
        }
    before = ours.a.ranks()
    engines = {name: between(before[once], llama[name][once]) for name in ("given", "F32")}
    versions = {"llama_cpp": llama_cpp.__version__}
    return (
        circumstances("cpu")
        | about
        | {"file": gguf.name, "corpus": corpus}
        | versions
        | {"rows": table, "engines": engines}
    )


def quantize(source: Path, target: Path, kind: int) -> None:
    """Write a GGUF file of another type by llama.cpp, silently."""
    import llama_cpp

    logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype, settings.allow_requantize = kind, True
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(settings)):
        raise RuntimeError(f"llama.cpp did not quantize {source}")


def ranked(model: Path, corpus: str, tokens: int, out: Path) -> Path:
    """Rank by `rbp extract`, in float32, and return the store."""
    reading = f"--protocol windows --length {LENGTH} --context 1 --tokens {tokens}".split()
    given = ["--model", str(model.resolve()), "--corpus", corpus, "--out", str(out)]
    process([sys.executable, "-m", "rbp.cli", "extract", *given, *reading])
    return store_folders([out])[0]


def folder_bytes(folder: Path) -> int:
    """Count the bytes of a folder's files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def evaluated(model: Path, rows: Sequence[Row]) -> pd.DataFrame:
    """Evaluate the rows by llama.cpp: nll (nats) and top (the likeliest token), a row for each scored token."""
    from llama_cpp import Llama

    threads = {"n_threads": torch.get_num_threads(), "n_threads_batch": torch.get_num_threads()}
    llama = Llama(str(model), n_ctx=LENGTH, n_batch=LENGTH, logits_all=True, verbose=False, **threads)
    parts = []
    for row in rows:
        llama.reset()
        llama.eval(row.ids.tolist())
        logits = torch.from_numpy(np.array(llama.scores[row.scored - 1])).double()
        nll = torch.nn.functional.cross_entropy(logits, torch.from_numpy(row.ids[row.scored]), reduction="none")
        parts.append(pd.DataFrame({"nll": nll.numpy(), "top": logits.argmax(1).numpy()}))
    return pd.concat(parts, ignore_index=True)


def between(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, float]:
    """Compare tokens' nll and top as llama-perplexity does: the measures, `after` against `before`."""
    one, other = (table["nll"].to_numpy(np.float64) for table in (before, after))
    change = np.exp(-other) - np.exp(-one)
    same = before["top"].to_numpy(np.int64) == after["top"].to_numpy(np.int64)
    values = (
        np.exp(other.mean()),
        np.expm1(other.mean() - one.mean()),
        same.mean(),
        change.mean(),
        (change**2).mean() ** 0.5,
    )
    return {name: float(value) for name, value in zip(MEASURES, values, strict=True)}


def line(name: str, values: Mapping[str, Any]) -> str:
    """Write a row of the table."""
    shown = zip(MEASURES, ("{:10.4f}", "{:+10.2%}", "{:10.2%}", "{:+10.3%}", "{:10.3%}"), strict=True)
    return f"{name:34}" + "".join(form.format(values[measure]) for measure, form in shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--json", type=Path, help="write the results there, such as bench/results/quantized-cpu.json")
    given = parser.parse_args()
    results = measured(given.gguf, given.corpus, given.tokens)
    print(f"{'':34}{'perplexity':>10}{'change':>10}{'same top':>10}{'mean Δp':>10}{'rms Δp':>10}")
    for row in results["rows"]:
        for engine in ("rbp", "llama.cpp"):
            print(line(f"{row['file']}, {engine}", row[engine]))
    for name, values in results["engines"].items():
        print(line(f"llama.cpp against rbp, {name}", values))
    print(f"a store: {results['bytes']:.1f} bytes a token")
    if given.json:
        write_json(given.json, results)
