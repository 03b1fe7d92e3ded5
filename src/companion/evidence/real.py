"""Rank a real model (SmolLM2-135M-Instruct) on the texts and in the ways that data/predictions/real.toml registers.

    python -m companion.evidence.real --texts FOLDER --out FOLDER

leaves rank stores and, of the model made worse, sums by document. Every piece is kept when it is finished (a store after
every few thousand tokens), so that a run which was stopped goes on.
"""

import argparse
import gzip
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from companion.project import ROOT
from rbp.damage import run as measuring
from rbp.damage.sums import Growing
from rbp.damage.worse import Reading, Step, made_worse, readings, rounded
from rbp.extract.corpora import Corpus, given_corpus
from rbp.extract.extraction import circumstances, extract, quiet, say_on_stderr
from rbp.extract.forward import Ranker
from rbp.extract.models import ModelFiles, find_model, load_model, load_tokenizer
from rbp.extract.protocol import Bos, Row, plan_rows, protocol
from rbp.kernel.problem import ieee

log = logging.getLogger(__name__)

MODEL = ROOT / "runs" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PREDICTIONS = ROOT / "data" / "predictions" / "real.toml"
SEED, PASSAGE = 52, 16_000  # of what is drawn; characters of a passage

#: experiment, text, documents, tokens that a document is cut to, start token; what matters most comes first
RANKINGS: list[tuple[str, str, int, int, Bos]] = [
    *(
        ("A", text, documents, 512, bos)
        for bos in ("never", "always")
        for text, documents in (("humaneval", 68), ("wikipedia", 56), ("hotpotqa", 1000), ("auslegal", 60))
    ),
    ("B", "auslegal", 100, 1025, "never"),
    ("B", "wikipedia", 56, 1025, "never"),
    ("E", "novels", 24, 2048, "never"),
    ("E", "passages", 24, 2048, "never"),
]
#: by way, the steps that enclose a cross-entropy 0.3 and 0.8 nats above the whole model's, by a rehearsal
WAYS: dict[str, tuple[float, ...]] = {
    "layers": (),
    "branches": (),
    "logits": (),
    "restart": (),
    "replaced": (),
    "weights": (),
}
ARTICLES, LENGTH, BEFORE, DRAWS = 40, 512, 64, 3


def texts(folder: Path) -> dict[str, list[str]]:
    """Every text's documents, from the corpus files in `folder`: none of those that were looked at before."""

    def rows(name: str) -> list[dict[str, Any]]:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
            return [json.loads(line) for line in stream]

    draw = np.random.default_rng(SEED)
    judgments = [row["text"] for row in rows("fca_judgments") if row["id"].startswith("fca/09_")]
    novels = [row["text"] for row in rows("novels_eltec_eng")]
    long = [text for text in judgments if len(text) > 2 * PASSAGE]
    middles = [
        _passage(text, int(draw.integers(len(text) // 4, 3 * len(text) // 4 - PASSAGE)))
        for text in (novels[i] for i in draw.choice(len(novels), 24, replace=False))
    ]
    return {
        "humaneval": [f"{row['prompt']}\n{row['canonical_solution']}" for row in rows("humaneval")[96:]],
        "wikipedia": [row["text"] for row in rows("wikitext2_raw_test")[4:]],
        "hotpotqa": [f"{row['question']}\n{row['answer']}" for row in rows("hotpotqa_dev")],
        "auslegal": judgments,
        "novels": middles,
        "passages": [_passage(long[i], len(long[i]) // 3) for i in draw.choice(len(long), 24, replace=False)],
    }


def _passage(text: str, place: int) -> str:
    start = text.index(" ", place) + 1
    return text[start : start + PASSAGE]


def read_again(rows: Sequence[Row], step: Step) -> list[Reading]:
    """What the model reads at a step; "restart" begins anew every so many tokens, with the one token before them."""
    if step.path != "restart":
        return readings(rows, step)
    length, found = int(step.step), []
    for row in rows:
        for start in range(1, len(row.ids), length):
            scored = row.scored[(row.scored >= start) & (row.scored < start + length)]
            if len(scored):
                ids = row.ids[start - 1 : start + length - 1]
                found.append(Reading(row.document, ids, scored - start, row.ids[scored]))
    return found


@contextmanager
def damaged(language: Any, step: Step) -> Iterator[None]:
    """The model at a step, afterwards as before: `made_worse`, and the two ways that it does not have.

    layers: the matrices of a share of the layers, evenly spread, to 3 bits; branches: what attention and feed-forward
    parts add to the residual stream, times a factor.
    """
    layers = language.model.model.layers
    change: Callable[[torch.Tensor], torch.Tensor]
    if step.path == "layers":
        some = np.linspace(0, len(layers) - 1, round(step.step * len(layers))).round().astype(int)
        matrices = [matrix for i in some.tolist() for matrix in layers[i].parameters() if matrix.ndim > 1]
        change = lambda weights: rounded(weights, 3)  # noqa: E731
    elif step.path == "branches":
        matrices = [part.weight for layer in layers for part in (layer.self_attn.o_proj, layer.mlp.down_proj)]
        change = lambda weights: weights * step.step  # noqa: E731
    else:
        with made_worse(language, step):
            yield
        return
    before = [(matrix, matrix.detach().clone()) for matrix in matrices]
    try:
        with torch.no_grad():
            for matrix, own in before:
                matrix.copy_(change(own))
        yield
    finally:
        with torch.no_grad():
            for matrix, own in before:
                matrix.copy_(own)


def steps() -> list[Step]:
    """The whole model, then all steps, the first draws of all ways before the other draws."""
    first = [Step(way, step) for way, chosen in WAYS.items() for step in chosen]
    others = [Step("weights", step, draw) for draw in range(1, DRAWS) for step in WAYS["weights"]]
    return [measuring.WHOLE_STEP, *first, *others]


def make_worse(files: ModelFiles, articles: Corpus, out: Path) -> None:
    """Measure the steps that are missing, on the articles' tokens that have enough before them."""
    with quiet(), ieee(torch.device("cpu")):
        language = load_model(files, "float32", torch.device("cpu"))
        plan = plan_rows(articles, load_tokenizer(files), protocol("authors", length=LENGTH, documents=ARTICLES))
        rows = [Row(row.document, row.start, row.ids, row.scored[row.scored >= BEFORE]) for row in plan.rows]
        ranker = Ranker(language, "reference", 1, compiled=False)
        ranker.check(rows)
        kept = Growing(out)
        key = {"weights": files.fingerprint(), "corpus": articles.fingerprint, "length": LENGTH, "articles": ARTICLES}
        kept.begin(key, {"model": files.name, "dataset": articles.name, **circumstances(ranker)}, PREDICTIONS)
        for step in steps():
            if kept.lacks(*step, files.name):
                with damaged(language, step):
                    sums = measuring.measured(ranker, read_again(rows, step), step)
                kept.add(*step, files.name, sums)
                log.warning("%s %g, draw %d: %.4f nats", *step, sums["nll_1.0"].sum() / sums["tokens"].sum())


def main() -> None:
    """Do what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    say_on_stderr()
    documents, files = texts(given.texts), find_model(str(MODEL))
    for letter, text, count, length, bos in RANKINGS:
        chosen = protocol("authors", length=length, documents=count, pack=8, bos=bos)
        extract([files], [given_corpus(documents[text], text)], chosen, given.out / f"{letter}-{bos}")
    make_worse(files, given_corpus(documents["wikipedia"], "wikipedia"), given.out / "C")


if __name__ == "__main__":
    main()
