"""`python -m bench.peers MODEL.gguf HUMANEVAL.jsonl`: the same tokens ranked by a plain script, us and llama.cpp.

The plain script (`bench/plain.py`) and `rbp extract` are whole processes, of the weights dequantized to safetensors.
llama.cpp, where `llama_cpp` is installed, takes the file itself, and of it the evaluation alone is timed. `ranking` are
tokens a second while ranks are made; `share` is of the rate of a bare matrix product in the same dtype; `moved` is the
share of ranks that differ from ours in float32.
"""

import json
import os
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch

from bench.common import Results, circumstances, report, spread
from bench.start import BENCH, OURS, PLAIN, PLAINLY, RBP, process
from rbp.extract.corpora import open_corpus
from rbp.extract.cost import config_size, operations
from rbp.extract.extraction import quiet
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.extract.protocol import RowPlan, plan_rows, protocol
from rbp.extract.store import open_store, store_folders

TOKENS, CPU, LLAMA = 8192, torch.device("cpu"), "llama.cpp, evaluation alone"
DTYPES = {f"{OURS}, {dtype}": dtype for dtype in ("float32", "bfloat16")}
HOW = f"--protocol windows --length 512 --context 1 --tokens {TOKENS} --out stores --dtype".split()


def measured(gguf: str, corpus: str, rounds: int) -> Results:
    """Time every way in turn, round by round."""
    texts, files = open_corpus(corpus, ("prompt", "canonical_solution")), find_model(str(Path(gguf).resolve()))
    seconds, rates, shares = (defaultdict[str, list[float]](list) for _ in range(3))
    ranks, load = dict[str, Any](), []
    with TemporaryDirectory() as place, quiet():
        folder, tokenizer = Path(place), load_tokenizer(files)
        tokenizer.save_pretrained(folder / "model")
        load_model(files, "float32", CPU).model.save_pretrained(folder / "model")
        (folder / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts.documents))
        given = [str(folder / "model"), str(folder / "t.jsonl")]
        plan = plan_rows(texts, tokenizer, protocol("windows", length=512, context=1, tokens=TOKENS))
        size = config_size(folder / "model")
        needed = operations(size, plan.tokens_read, plan.tokens) / plan.tokens
        for _ in range(rounds):
            load.append(os.getloadavg()[0])
            seconds[PLAIN].append(process([*PLAINLY, *given, str(TOKENS)], BENCH.parent)[0])
            for name, dtype in DTYPES.items():
                rmtree(folder / "stores", ignore_errors=True)
                ours = [*RBP, "extract", "--model", given[0], "--corpus", given[1], *HOW, dtype]
                seconds[name].append(process(ours, folder)[0])
                store = open_store(store_folders([folder / "stores"])[0])
                ranks[name] = store.ranks()["greater"].to_numpy() + 1
                rates[name].append(store.manifest["about"]["tokens_per_second"])
                product = product_rate(getattr(torch, dtype), size.width)
                shares[name].append(rates[name][-1] * needed / product)
            if find_spec("llama_cpp"):
                ranks[LLAMA], took = by_llama(str(files.gguf), plan)
                seconds[LLAMA].append(took)
                rates[LLAMA].append(plan.tokens / took)
    rows = [{"way": name} | spread(values, seconds[PLAIN]) for name, values in seconds.items()]
    for row in rows[1:]:
        values, first = ranks[row["way"]], next(iter(ranks.values()))
        row |= {"rbp_1": float((values <= 1).mean()), "moved": float((values != first).mean())}
        row |= {
            name: median(each[row["way"]]) for name, each in (("ranking", rates), ("share", shares)) if each[row["way"]]
        }
    about = {"name": Path(gguf).name, "tokens": plan.tokens, "rounds": rounds, "load": load}
    return circumstances("cpu") | about | {"rows": rows}


def product_rate(dtype: torch.dtype, width: int, rows: int = 256, columns: int = 8192) -> float:
    """Measure the operations a second of a bare matrix product, the best of nine."""
    one, other = torch.randn(rows, width, dtype=dtype), torch.randn(width, columns, dtype=dtype)
    seconds = []
    for _ in range(9):
        start = perf_counter()
        one @ other
        seconds.append(perf_counter() - start)
    return 2 * rows * width * columns / min(seconds)


def by_llama(gguf: str, plan: RowPlan) -> tuple[Any, float]:
    """Rank by llama.cpp; return the ranks, and how many seconds it took."""
    from llama_cpp import Llama

    ranks, threads = [], {"n_threads": torch.get_num_threads(), "n_threads_batch": torch.get_num_threads()}
    llama = Llama(gguf, n_ctx=512, n_batch=512, logits_all=True, verbose=False, **threads)
    start = perf_counter()
    for row in plan.rows:
        llama.reset()
        llama.eval(row.ids.tolist())
        logits = llama.scores[row.scored - 1]
        ranks.append((logits > np.take_along_axis(logits, row.ids[row.scored, None], 1)).sum(1) + 1)
    return np.concatenate(ranks), perf_counter() - start


if __name__ == "__main__":
    report(measured, __doc__ or "", "gguf", "corpus")
