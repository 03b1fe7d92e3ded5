"""Rank passages cut at random places by SmolLM2-135M-Instruct: how misses depend on the length of the left context.

Registered in data/predictions/openings.toml, which holds the definitions.

    python -m companion.evidence.openings --texts FOLDER --out FOLDER    data/real/openings.parquet

Each part of PART passages is saved in --out when it is ranked, so that a stopped run goes on.
"""

import argparse
import logging
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from companion.evidence.real import MODEL, find_rare_tokens, read_texts, sample_novels, ship
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


def read_documents(folder: Path) -> dict[str, list[str]]:
    """Read the documents that passages are cut from: none was looked at before, or serves to count rare tokens."""
    documents = read_texts(folder)
    novels, _ = sample_novels(folder, np.random.default_rng(52))  # as in experiment E (real.toml)
    return {"wikipedia": documents["wikipedia"], "auslegal": documents["auslegal"], "novels": novels}


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
    """Rank all passages with and without a start token, a file for each part, if missing; and ship them."""
    tokenizer, rare, parts = load_tokenizer(files), find_rare_tokens(files, folder), []
    start = tokenizer.convert_tokens_to_ids(START)
    cuts: dict[str, tuple[list[npt.NDArray[np.int64]], list[tuple[int, int]]]] = {}
    for text, documents in read_documents(folder).items():
        tokens = tokenizer(documents, add_special_tokens=False)["input_ids"]
        ids = [np.array(document, dtype=np.int64) for document in tokens]
        cuts[text] = ids, cut_passages(ids, PASSAGES, np.random.default_rng([SEED, TEXTS.index(text)]))
    with quiet(), ieee(torch.device("cpu")):
        ranker = Ranker(load_model(files, "float32", torch.device("cpu")), "blocked", BATCH, compiled=False)
        # a part of every text and way in turn: what is there when time runs out is a random sample of all
        for first, text, way in product(range(0, PASSAGES, PART), TEXTS, ("never", "always")):
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


def main() -> None:
    """Rank what is missing, and ship it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="the folder of corpus files")
    parser.add_argument("--out", type=Path, required=True, help="the folder of ranked parts")
    arguments = parser.parse_args()
    say_on_stderr()
    rank_passages(find_model(str(MODEL)), arguments.texts, arguments.out)


if __name__ == "__main__":
    main()
