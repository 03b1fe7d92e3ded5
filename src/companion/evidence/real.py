"""Rank a real model (SmolLM2-135M-Instruct) on the texts and in the ways that data/predictions registers.

What the whole model does, and C, is in real.toml; what damaged models do on more texts, in real_damaged.toml; how
misses depend on the length of the left context, by passages cut at random places, in openings.toml.

    python -m companion.evidence.real rank --texts FOLDER --out FOLDER      data/real/ranks.parquet, by rank stores
    python -m companion.evidence.real worse --texts FOLDER --out FOLDER     data/real/paths, of the model made worse
    python -m companion.evidence.real damaged --texts FOLDER --out FOLDER   data/real/damaged.parquet, token by token
    python -m companion.evidence.real openings --texts FOLDER --out FOLDER  data/real/openings.parquet, by passages
    python -m companion.evidence.real sentence                              data/real/sentence.json, of the front page

Every piece is kept in --out when it is finished (a store after every few thousand tokens), so that a run which was
stopped goes on.
"""

import argparse
import gzip
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from companion.damage.compare import MANIFEST, SUMS
from companion.damage.measure import (
    WHOLE_STEP,
    Growing,
    Reading,
    Step,
    change_weights,
    checked_ranker,
    degraded,
    list_readings,
    measure_steps,
    pack_table,
    round_weights,
)
from companion.project import ROOT
from rbp.extract.extraction import circumstances, extract, quiet, say_on_stderr
from rbp.extract.forward import Ranker, rank_logits
from rbp.io import parse_json, sha256, write_file, write_json
from rbp.kernel.problem import ieee
from rbp.measurements.ranked import Ranked
from rbp.models.find import ModelFiles, find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import open_store
from rbp.texts.corpora import Corpus, given_corpus
from rbp.texts.protocol import Bos, Row, plan_rows, protocol

log = logging.getLogger(__name__)

Rare = npt.NDArray[np.bool_]
"""Of each token of the vocabulary, whether it is rare: `find_rare_tokens`."""

MODEL = ROOT / "runs" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PREDICTIONS = ROOT / "data" / "predictions" / "real.toml"
LATER = ROOT / "data" / "predictions" / "real_damaged.toml"
SHIPPED = ROOT / "data" / "real"
SENTENCE = "The United States Supreme Court held that the decision of the lower court was wrong."
EXPECTED = 5  # tokens are listed of each prediction
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
    "layers": (0.2333, 0.5, 0.6),
    "branches": (0.42, 0.23),
    "weights": (0.085, 0.14),
    "logits": (1.0, 1.7),
    "restart": (96, 40),
    "replaced": (0.04, 0.11),
}
#: of the model made worse: the text, documents, tokens that a document is cut to, and what registers the experiment
WORSE = {"C": ("wikipedia", 40, 384, PREDICTIONS), "F": ("auslegal", 40, 1088, LATER)}
BEFORE, DRAWS = 64, 3  # tokens that are read before the first that is scored; draws of noise on weights
DAMAGES = (Step("layers", 0.6), Step("branches", 0.23), Step("weights", 0.14))  # whose misses are ranked token by token
SAMPLE, RARE, CONTEXT = 1_500_000, 10, 4  # characters of each of three texts; how often a rare token is there; tokens
#: of passages: their texts, none looked at before; tokens of one; how many of a text (150 016 scored tokens)
CUT_FROM, LENGTH, PASSAGES = ("wikipedia", "auslegal", "novels"), 129, 1_172
START, CUT_SEED = "<|im_start|>", 70  # the BOS token that the file names; the seed of the places
PART, BATCH = 64, 16  # passages that are saved together; rows of a forward pass


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read a corpus file."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def sample_novels(folder: Path, draw: np.random.Generator) -> tuple[list[str], list[str]]:
    """Sample the novels that passages are taken from; returns these and the others."""
    novels = [row["text"] for row in read_rows(folder, "novels_eltec_eng")]
    chosen = draw.choice(len(novels), 24, replace=False).tolist()
    return [novels[i] for i in chosen], [text for i, text in enumerate(novels) if i not in chosen]


def read_texts(folder: Path) -> dict[str, list[str]]:
    """Read every text's documents from the corpus files in `folder`, without any that were looked at before."""
    draw = np.random.default_rng(SEED)
    judgments = [row["text"] for row in read_rows(folder, "fca_judgments") if row["id"].startswith("fca/09_")]
    long = [text for text in judgments if len(text) > 2 * PASSAGE]
    middles = [
        _passage(text, int(draw.integers(len(text) // 4, 3 * len(text) // 4 - PASSAGE)))
        for text in sample_novels(folder, draw)[0]
    ]
    return {
        "humaneval": [f"{row['prompt']}\n{row['canonical_solution']}" for row in read_rows(folder, "humaneval")[96:]],
        "wikipedia": [row["text"] for row in read_rows(folder, "wikitext2_raw_test")[4:]],
        "hotpotqa": [f"{row['question']}\n{row['answer']}" for row in read_rows(folder, "hotpotqa_dev")],
        "auslegal": judgments,
        "novels": middles,
        "passages": [_passage(long[i], len(long[i]) // 3) for i in draw.choice(len(long), 24, replace=False)],
    }


def _others(folder: Path) -> list[str]:
    """Read other text, to count tokens in: judgments of 2006, other novels, proposals; SAMPLE characters of each."""
    judgments = [row["text"] for row in read_rows(folder, "fca_judgments") if row["id"].startswith("fca/06_")]
    novels = sample_novels(folder, np.random.default_rng(SEED))[1]
    proposals = [row["text"] for row in read_rows(folder, "tech_proposals")]
    return ["\n".join(texts_of_kind)[:SAMPLE] for texts_of_kind in (judgments, novels, proposals)]


def _passage(text: str, place: int) -> str:
    start = text.index(" ", place) + 1
    return text[start : start + PASSAGE]


def read_again(rows: Sequence[Row], step: Step) -> list[Reading]:
    """List what the model reads at a step; "restart" begins anew every so many tokens, with one token before them."""
    if step.path != "restart":
        return list_readings(rows, step)
    length, pieces = int(step.step), []
    for row in rows:
        for start in range(1, len(row.ids), length):
            scored = row.scored[(row.scored >= start) & (row.scored < start + length)]
            if len(scored):
                ids = row.ids[start - 1 : start + length - 1]
                pieces.append(Reading(row.document, ids, scored - start, row.ids[scored]))
    return pieces


@contextmanager
def damage(language: Any, step: Step) -> Iterator[None]:
    """Change the model to a step, and back at the end: `degraded`, and the two ways that it does not have.

    layers: the matrices of a share of the layers, evenly spread, to 3 bits; branches: what attention and feed-forward
    parts add to the residual stream, times a factor.
    """
    layers = language.model.model.layers
    change: Callable[[torch.Tensor], torch.Tensor]
    if step.path == "layers":
        places = range(round(step.step * len(layers)))
        chosen = (layers[int((i + 0.5) * len(layers) / len(places))] for i in places)
        matrices = [matrix for layer in chosen for matrix in layer.parameters() if matrix.ndim > 1]
        change = lambda weights: round_weights(weights, 3)  # noqa: E731
    elif step.path == "branches":
        matrices = [part.weight for layer in layers for part in (layer.self_attn.o_proj, layer.mlp.down_proj)]
        change = lambda weights: weights * step.step  # noqa: E731
    else:
        with degraded(language, step):
            yield
        return
    with change_weights(matrices, change):
        yield


def list_steps() -> list[Step]:
    """List the whole model, then all steps, the first draws of all ways before the other draws."""
    first = [Step(way, step) for way, chosen in WAYS.items() for step in chosen]
    others = [Step("weights", step, draw) for draw in range(1, DRAWS) for step in WAYS["weights"]]
    return [WHOLE_STEP, *first, *others]


def make_worse(files: ModelFiles, corpus: Corpus, count: int, length: int, registered: Path, out: Path) -> None:
    """Measure the steps that are missing, on the tokens of `count` documents that have enough before them."""
    with quiet(), ieee(torch.device("cpu")):
        with files.unchanged():
            language, weights = load_model(files, "float32", torch.device("cpu")), files.fingerprint()
        plan = plan_rows(corpus, load_tokenizer(files), protocol("authors", length=length, documents=count))
        rows = [Row(row.document, row.start, row.ids, row.scored[row.scored >= BEFORE]) for row in plan.rows]
        ranker = checked_ranker(language, rows)
        key = {"weights": weights, "corpus": corpus.fingerprint, "length": length, "articles": count}
        description = {"model": files.name, "dataset": corpus.name, **circumstances(ranker)}
        growing = Growing(out, {"key": key, "about": description, "predictions": sha256(registered)})
        measure_steps(growing, ranker, rows, list_steps(), files.name, weights, damage, read_again)
        growing.join()


def ship_worse(out: Path, shipped: Path) -> None:
    """Copy the sums that `make_worse` left to data/real."""
    manifest = parse_json((out / MANIFEST).read_bytes())
    manifest["about"]["model"] = Path(manifest["about"]["model"]).name  # not where it lay
    write_file(shipped / SUMS, pack_table(pd.read_parquet(out / SUMS).assign(model=manifest["about"]["model"])))
    write_json(shipped / MANIFEST, manifest)


def rank_damaged(files: ModelFiles, documents: dict[str, list[str]], rare: Rare, out: Path) -> None:
    """Rank the texts of A by the damaged models, without a start token: data/real/damaged.parquet, without the tokens.

    A table for each way and text is kept in `out`, and not made again.
    """
    parts = []
    with quiet(), ieee(torch.device("cpu")):
        language, tokenizer = load_model(files, "float32", torch.device("cpu")), load_tokenizer(files)
        for step, (letter, text, count, length, bos) in product(DAMAGES, RANKINGS):
            if letter != "A" or bos != "never":
                continue
            file = out / f"{step.path}-{text}.parquet"
            if not file.exists():
                chosen = protocol("authors", length=length, documents=count, bos=bos)
                rows = plan_rows(given_corpus(documents[text], text), tokenizer, chosen).rows
                ranker = Ranker(language, "reference", 8, compiled=False)
                ranker.check(rows)
                with damage(language, step), torch.inference_mode():
                    ranks = ranker.rank(rows)
                columns = {
                    "document": np.repeat([row.document for row in rows], [len(row.scored) for row in rows]),
                    "position": np.concatenate([row.start + row.scored for row in rows]),
                    "rank": ranks.greater + ranks.equal,
                    "rare": rare[np.concatenate([row.ids[row.scored] for row in rows])],
                }
                table = pd.DataFrame(columns).astype({"document": np.int16, "position": np.int16, "rank": np.uint16})
                write_file(file, pack_table(table))
                log.warning("%s on %s: %d tokens", step.path, text, len(table))
            parts.append(pd.read_parquet(file).assign(way=step.path, text=text))
    ship("damaged", parts)


def ship(name: str, parts: Sequence[pd.DataFrame]) -> None:
    """Write parts as one table to data/real, with words as categories."""
    table = pd.concat(parts, ignore_index=True)
    words = [column for column in ("experiment", "way", "text", "bos") if column in table]
    write_file(SHIPPED / f"{name}.parquet", pack_table(table.astype(dict.fromkeys(words, "category"))))


def find_repeats(ids: npt.NDArray[np.int64], length: int = CONTEXT) -> npt.NDArray[np.bool_]:
    """Return for each token whether the `length` tokens before it occur earlier in the document in this order."""
    seen: set[bytes] = set()
    is_repeated = np.zeros(len(ids), dtype=bool)
    for i in range(length, len(ids)):
        before = ids[i - length : i].tobytes()
        is_repeated[i] = before in seen
        seen.add(before)
    return is_repeated


def find_rare_tokens(files: ModelFiles, folder: Path) -> Rare:
    """Say of each token of the vocabulary whether it occurs at most RARE times in other text."""
    tokenizer, counts = load_tokenizer(files), np.zeros(files.config["vocab_size"], dtype=np.int64)
    for text in _others(folder):
        np.add.at(counts, tokenizer(text, add_special_tokens=False)["input_ids"], 1)
    return np.asarray(counts <= RARE)


def rank_texts(files: ModelFiles, documents: dict[str, list[str]], rare: Rare, out: Path) -> None:
    """Rank all texts into stores in `out`, and ship them as data/real/ranks.parquet, without the tokens.

    A row per ranked token: experiment, text, bos, document, position (in the document, from 0), rank (greater + equal),
    rare (at most RARE times in other texts), repeated (see `find_repeats`).
    """
    tokenizer, parts = load_tokenizer(files), []
    for letter, text, count, length, bos in RANKINGS:
        corpus = given_corpus(documents[text], text)
        chosen = protocol("authors", length=length, documents=count, pack=8, bos=bos)
        (folder,) = extract([files], [corpus], chosen, out / f"{letter}-{bos}")
        ranked = Ranked(open_store(folder))
        plan = plan_rows(corpus, tokenizer, protocol("authors", length=length, documents=count))
        again = {row.document: find_repeats(row.ids) for row in plan.rows}
        tokens = ranked.tokens
        places = zip(tokens["document"].tolist(), tokens["position"].tolist(), strict=True)
        columns: dict[str, Any] = {
            "experiment": letter,
            "text": text,
            "bos": bos,
            "document": tokens["document"].astype(np.int16),
            "position": tokens["position"].astype(np.int16),
            "rank": np.asarray(ranked.ranks).astype(np.uint16),
            "rare": rare[tokens["token"]],
            "repeated": [bool(again[document][position]) for document, position in places],
        }
        parts.append(pd.DataFrame(columns))
    ship("ranks", parts)


def cut_passages(
    documents: Sequence[npt.NDArray[np.int64]], count: int, draw: np.random.Generator
) -> list[tuple[int, int]]:
    """Draw passages that do not overlap: (document, first token). A grid of random offset lies over each document.

    The offset is 1 to LENGTH, so that no passage begins where its document does.
    """
    places = [
        (document, int(start))
        for document, ids in enumerate(documents)
        for start in range(int(draw.integers(1, LENGTH + 1)), len(ids) - LENGTH + 1, LENGTH)
    ]
    return [places[i] for i in draw.choice(len(places), min(count, len(places)), replace=False)]


def rank_passages(files: ModelFiles, documents: dict[str, list[str]], rare: Rare, out: Path) -> None:
    """Rank passages with and without a start token, a file for each part, if missing; and ship them."""
    tokenizer, parts = load_tokenizer(files), []
    start = tokenizer.convert_tokens_to_ids(START)
    cuts: dict[str, tuple[list[npt.NDArray[np.int64]], list[tuple[int, int]]]] = {}
    for text in CUT_FROM:
        tokens = tokenizer(documents[text], add_special_tokens=False)["input_ids"]
        ids = [np.array(document, dtype=np.int64) for document in tokens]
        cuts[text] = ids, cut_passages(ids, PASSAGES, np.random.default_rng([CUT_SEED, CUT_FROM.index(text)]))
    with quiet(), ieee(torch.device("cpu")):
        ranker = Ranker(load_model(files, "float32", torch.device("cpu")), "blocked", BATCH, compiled=False)
        # a part of every text and way in turn: what is there when time runs out is a random sample of all
        for first, text, way in product(range(0, PASSAGES, PART), CUT_FROM, ("never", "always")):
            ids, places = cuts[text]
            file = out / f"{text}-{way}-{first:04d}.parquet"
            if not file.exists() and first < len(places):
                table = _rank_part(ranker, ids, places[first : first + PART], first, [start] * (way == "always"))
                write_file(file, table.assign(rare=rare[table.pop("token")]).to_parquet(index=False))
                log.warning("%s: %d tokens", file.name, len(table))
            if file.exists():
                parts.append(pd.read_parquet(file).assign(text=text, bos=way))
    ship("openings", parts)


def _rank_part(
    ranker: Ranker,
    ids: Sequence[npt.NDArray[np.int64]],
    places: Sequence[tuple[int, int]],
    first: int,
    before: Sequence[int],
) -> pd.DataFrame:
    """Rank some passages, of which the first has the number `first`, each after the tokens `before`."""
    rows, columns = [], []
    for passage, (document, place) in enumerate(places, start=first):
        tokens = ids[document][place : place + LENGTH]
        context = np.arange(0 if before else 1, LENGTH)
        rows.append(Row(document, place, np.array([*before, *tokens]), context + len(before)))
        labels = {"document": document, "passage": passage, "context": context, "token": tokens[context]}
        columns.append(pd.DataFrame(labels))
    ranker.check(rows)
    with torch.inference_mode():
        ranks = ranker.rank(rows)
    small = {"document": np.int16, "passage": np.int16, "context": np.int16, "rank": np.uint16}
    return pd.concat(columns, ignore_index=True).assign(rank=ranks.greater + ranks.equal).astype(small)


def rank_sentence(files: ModelFiles, text: str) -> dict[str, Any]:
    """Rank a sentence's tokens, without a start token, and list what the model expected in their places.

    "model", "size" (parameters S), and a dictionary for each of "tokens": text, rank (greater + equal), nll (nats) and
    the most probable tokens with their probability ("expected"); the first token has its text alone.
    """
    with quiet(), ieee(torch.device("cpu")), torch.inference_mode():
        language, tokenizer = load_model(files, "float32", torch.device("cpu")), load_tokenizer(files)
        ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
        logits = language.model(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
    counts = rank_logits(logits, ids[1:])
    highest, expected = torch.softmax(logits.double(), 1).topk(EXPECTED)
    tokens: list[dict[str, Any]] = [{"text": tokenizer.decode([ids[0]])}]
    for i, token in enumerate(ids[1:].tolist()):
        pairs = zip(expected[i].tolist(), highest[i].tolist(), strict=True)
        tokens.append(
            {
                "text": tokenizer.decode([token]),
                "rank": int(counts.greater[i] + counts.equal[i]),
                "nll": round(float(counts.nll[i]), 4),
                "expected": [[tokenizer.decode([expected_token]), round(p, 5)] for expected_token, p in pairs],
            }
        )
    return {"model": MODEL.stem, "size": language.size, "tokens": tokens}


def main() -> None:
    """Rank what is missing, and ship it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rank", "worse", "damaged", "openings", "sentence"])
    parser.add_argument("--texts", type=Path, help="the folder of corpus files")
    parser.add_argument("--out", type=Path, help="the folder of what is finished")
    arguments = parser.parse_args()
    say_on_stderr()
    files, out = find_model(str(MODEL)), arguments.out
    if arguments.what == "sentence":
        write_json(SHIPPED / "sentence.json", rank_sentence(files, SENTENCE))
        return
    if arguments.texts is None or out is None:
        parser.error("give --texts and --out")
    documents = read_texts(arguments.texts)
    if arguments.what == "worse":
        for letter, (text, count, length, registered) in WORSE.items():
            make_worse(files, given_corpus(documents[text], text), count, length, registered, out / letter)
            ship_worse(out / letter, SHIPPED / "paths" / text)
        return
    rare = find_rare_tokens(files, arguments.texts)
    if arguments.what == "damaged":
        rank_damaged(files, documents, rare, out / "damaged")
    elif arguments.what == "openings":
        novels, _ = sample_novels(arguments.texts, np.random.default_rng(SEED))  # whole, as in experiment E
        rank_passages(files, documents | {"novels": novels}, rare, out)
    else:
        rank_texts(files, documents, rare, out)


if __name__ == "__main__":
    main()
