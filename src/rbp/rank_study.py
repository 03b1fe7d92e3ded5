"""One model ranked on one text in three ways: what ties do, and what rows beyond the tokenizer's tokens do.

The rank stores go into a folder of the caller's. Whatever a run says of its progress is kept off the page.
"""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from os.path import relpath
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from rbp import published
from rbp.errors import ParameterError
from rbp.extraction.corpora import open_corpus
from rbp.extraction.models import find_model, load_tokenizer
from rbp.extraction.protocols import Protocol
from rbp.extraction.reader import RankStore, open_store
from rbp.extraction.run import Settings, extract
from rbp.extraction.tables import Ranked
from rbp.metric import TieRule, rank, rbp
from rbp.paths import DATA, ROOT
from rbp.tables import label

VARIANTS: dict[str, dict[str, Any]] = {
    "all": {},
    "bfloat16": {"round_logits": "bfloat16"},
    "tokenizer": {"vocabulary": "tokenizer"},
}


@dataclass(frozen=True)
class Study:
    """The ranks of one model on one corpus: of all logits, of logits rounded to bfloat16, of real tokens alone."""

    model: str
    corpus: str
    stores: dict[str, RankStore]

    @cached_property
    def tokenizer(self) -> Any:
        """The model's own."""
        return load_tokenizer(find_model(self.model))

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """One row per token, of all logits as computed: see `RankStore.ranks`."""
        return self.stores["all"].ranks()

    def ties(self) -> pd.DataFrame:
        """What equal scores do, for logits as computed and rounded to bfloat16.

        Columns logits, tied (the share of tokens whose score another token has too), most (the largest such group),
        and RBP_1 under each tie rule: paper, strict, expected.
        """
        rows = []
        for name in ("all", "bfloat16"):
            tokens = self.stores[name].ranks()
            shares = {rule: rbp(rank(tokens.greater, tokens.equal, rule), 1) for rule in get_args(TieRule)}
            rows.append({"logits": name, "tied": (tokens.equal > 1).mean(), "most": tokens.equal.max(), **shares})
        return pd.DataFrame(rows)

    def padding(self, rule: TieRule, k: Sequence[int] = (1, 10, 100)) -> pd.DataFrame:
        """What rows beyond the tokenizer's tokens do.

        Columns logits ("all" or "tokenizer"), rows (how many are counted), rbp1, rbp10, …, mean_rank, cross_entropy
        (nats), and moved: the share of tokens whose rank is another than among all.
        """
        rows = []
        whole = rank(self.tokens.greater, self.tokens.equal, rule)
        for name in ("all", "tokenizer"):
            store = self.stores[name]
            tokens = store.ranks()
            ranks = rank(tokens.greater, tokens.equal, rule)
            shares = {f"rbp{each}": rbp(ranks, each) for each in k}
            means = {"mean_rank": ranks.mean(), "cross_entropy": tokens.nll.astype("float64").mean()}
            rows.append({"logits": name, "rows": store.vocabulary, **shares, **means, "moved": (ranks != whole).mean()})
        return pd.DataFrame(rows)

    def pieces(self, document: int, count: int, rule: TieRule) -> pd.DataFrame:
        """The first `count` ranked tokens of a document: text, rank, nll.

        Tokens that hold part of a character only are joined with the next ones: their text is the character's, their
        rank and nll the highest of theirs. Raises ParameterError for a document without ranks.
        """
        mine = self.tokens[self.tokens.document == document].head(count)
        if mine.empty:
            there = sorted(set(self.tokens.document))
            what = f"document {document} has no ranked tokens"
            raise ParameterError(what, "document", f"There are {there[0]} to {there[-1]}.")
        rows: list[tuple[str, float, float]] = []
        waiting: list[tuple[int, float, float]] = []
        ranks = rank(mine.greater, mine.equal, rule)
        for token, place, nll in zip(mine.token.tolist(), ranks.tolist(), mine.nll.tolist(), strict=True):
            waiting.append((token, place, nll))
            text = self.tokenizer.decode([each[0] for each in waiting])
            if not text.endswith("�"):
                rows.append((text, max(each[1] for each in waiting), max(each[2] for each in waiting)))
                waiting = []
        return pd.DataFrame(rows, columns=["text", "rank", "nll"])


def study(model: str, corpus: str, protocol: Protocol, settings: Settings, out: Path) -> Study:
    """Rank `corpus` by `model` in each of VARIANTS, into rank stores in the folder `out`.

    A path that is not found from here is looked for in the project's folder. Raises as `extract`.
    """
    model, corpus = here(model), here(corpus)
    files = find_model(model)
    open_corpus(corpus, settings.fields)  # what is wrong with it is said before anything is run
    names = [path for path in [Path(corpus), *files.folder.iterdir()] if path.is_file()]
    published.opened.update(label(path) for path in names if path.resolve().is_relative_to(DATA))
    stores = {}
    with redirect_stderr(io.StringIO()):
        for name, options in VARIANTS.items():
            chosen = Settings(**{**vars(settings), **options})
            stores[name] = open_store(extract([model], [corpus], protocol, out, chosen)[0])
    return Study(model, corpus, stores)


def here(name: str) -> str:
    """The path `name` as seen from the working folder, if it is one of the project's; else `name`."""
    return name if Path(name).exists() or not (ROOT / name).exists() else relpath(ROOT / name)


def every_k(ranked: Ranked) -> pd.DataFrame:
    """RBP_k for every k that is some token's rank: columns k, rbp."""
    counts = pd.Series(ranked.ranks).value_counts().sort_index()
    return pd.DataFrame({"k": counts.index, "rbp": counts.cumsum().to_numpy() / len(ranked.ranks)})
