"""Rank passages cut at random places by SmolLM2-135M-Instruct: how misses depend on the length of the left context.

Registered in data/predictions/openings.toml, which holds the definitions.

    python -m companion.evidence.openings rank --texts FOLDER --out FOLDER    a table for each text, way and part
    python -m companion.evidence.openings ship --texts FOLDER --out FOLDER    data/real/openings.parquet

Each part of PART passages is saved when it is ranked, so that a stopped run goes on.
"""

import argparse
import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from companion.evidence.real import MODEL, SHIPPED, rare_tokens
from rbp.extract.extraction import quiet, say_on_stderr
from rbp.extract.forward import Ranker
from rbp.io import write_file
from rbp.kernel.problem import ieee
from rbp.models.find import ModelFiles, find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.texts.protocol import Row

log = logging.getLogger(__name__)

TEXTS = ("wikipedia", "auslegal", "novels")
LENGTH, PASSAGES, SEED = 129, 1_172, 70  # tokens of a passage; passages of a text (150 016 scored tokens); of the draws
START = "<|im_start|>"  # the BOS token that the file names
PART, BATCH = 64, 16  # passages that are saved together; rows of a forward pass


def read_documents(folder: Path, text: str) -> list[str]:
    """Read the documents that passages are cut from: none was looked at before, or serves to count rare tokens."""
    name = {"wikipedia": "wikitext2_raw_test", "auslegal": "fca_judgments", "novels": "novels_eltec_eng"}[text]
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    if text == "wikipedia":
        return [row["text"] for row in rows[4:]]
    if text == "auslegal":
        return [row["text"] for row in rows if row["id"].startswith("fca/09_")]
    # the novels of experiment E (real.toml), drawn as there: the others are what rare tokens are counted in
    chosen = np.random.default_rng(52).choice(len(rows), 24, replace=False).tolist()
    return [rows[i]["text"] for i in chosen]


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


def rank_passages(files: ModelFiles, folder: Path, out: Path) -> None:
    """Rank all passages with and without a start token, a file for each part, if missing."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(files)
    start = tokenizer.convert_tokens_to_ids(START)
    with quiet(), ieee(torch.device("cpu")):
        language = load_model(files, "float32", torch.device("cpu"))
        cuts: dict[str, tuple[list[npt.NDArray[np.int64]], list[tuple[int, int]]]] = {}
        for text in TEXTS:
            texts = read_documents(folder, text)
            ids = [np.array(tokenizer(each, add_special_tokens=False)["input_ids"], dtype=np.int64) for each in texts]
            cuts[text] = ids, cut_passages(ids, PASSAGES, np.random.default_rng([SEED, TEXTS.index(text)]))
        ranker: Ranker | None = None
        # a part of every text and way in turn: what is there when time runs out is a random sample of all
        for first in range(0, PASSAGES, PART):
            for text, (ids, places) in cuts.items():
                for way in ("never", "always"):
                    file = out / f"{text}-{way}-{first:04d}.parquet"
                    if file.exists():
                        continue
                    before = [start] if way == "always" else []
                    rows, columns = [], []
                    for passage, (document, place) in enumerate(places[first : first + PART], start=first):
                        tokens = ids[document][place : place + LENGTH]
                        context = np.arange(0 if before else 1, LENGTH)
                        rows.append(Row(document, place, np.array([*before, *tokens]), context + len(before)))
                        about = {"document": document, "passage": passage, "context": context, "token": tokens[context]}
                        columns.append(pd.DataFrame(about))
                    if not rows:
                        continue
                    if ranker is None:
                        ranker = Ranker(language, "blocked", BATCH, compiled=False)
                        ranker.check(rows)
                    with torch.inference_mode():
                        ranks = ranker.rank(rows)
                    table = pd.concat(columns, ignore_index=True).assign(rank=ranks.greater + ranks.equal)
                    write_file(file, table.to_parquet(index=False))
                    log.warning("%s: %d tokens", file.name, len(table))


def ship(files: ModelFiles, folder: Path, out: Path) -> None:
    """Write what `rank_passages` left as one table to data/real, with `rare` in place of the tokens."""
    rare, parts = rare_tokens(files, folder), []
    for file in sorted(out.glob("*.parquet")):
        text, way, _ = file.stem.split("-")
        table = pd.read_parquet(file)
        small = table[["document", "passage", "context"]].astype(np.int16).assign(rank=table["rank"].astype(np.uint16))
        parts.append(small.assign(rare=rare[table["token"]], text=text, bos=way))
    shipped = pd.concat(parts, ignore_index=True).astype({"text": "category", "bos": "category"})
    shipped.to_parquet(SHIPPED / "openings.parquet", index=False, compression="zstd", compression_level=19)


def main() -> None:
    """Rank what is missing, or ship what is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rank", "ship"])
    parser.add_argument("--texts", type=Path, required=True, help="the folder of corpus files")
    parser.add_argument("--out", type=Path, required=True, help="the folder of ranked parts")
    arguments = parser.parse_args()
    say_on_stderr()
    steps: dict[str, Any] = {"rank": rank_passages, "ship": ship}
    steps[arguments.what](find_model(str(MODEL)), arguments.texts, arguments.out)


if __name__ == "__main__":
    main()
