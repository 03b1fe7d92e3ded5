"""Rank one model on one text, with its logits as computed and rounded, to see the effects of ties.

The rank stores go into a folder of the caller's. What a run says of its progress goes to stderr.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import relpath
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from companion.project import DATA, ROOT
from rbp import provenance
from rbp.choices import Settings
from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import extract, say_on_stderr
from rbp.figures.style import Panels, rbp_label
from rbp.laws.counting import neg_log_rbp_interval
from rbp.laws.resampling import independent_units, neg_log_rbp_document_interval
from rbp.measurements.ranked import pieces_of
from rbp.metric import TieRule, rank, rbp
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer
from rbp.report.display import shown
from rbp.store import RankStore, open_store
from rbp.tables import checked, read_csv
from rbp.texts.corpora import open_corpus
from rbp.texts.protocol import Protocol

SIZES = 3  # the fewest that carry a power law
LAST_BITS = "the last bits of logits differ between processors"  # why a recorded number may move a little


@dataclass(frozen=True)
class RankVariants:
    """The ranks of one model on one corpus: of logits as computed ("all"), and rounded to bfloat16 ("bfloat16")."""

    model: str
    stores: dict[str, RankStore]

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return load_tokenizer(find_model(self.model))

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """Return a row for each token, of all logits as computed: see `RankStore.ranks`."""
        return self.stores["all"].ranks()

    def ties(self) -> pd.DataFrame:
        """Count ties between equal scores, for logits as computed and rounded to bfloat16.

        Columns logits, tied (the share of tokens whose score another token has too), most (the largest such group),
        and RBP_1 under each tie rule: paper, strict, expected.
        """
        rows = []
        for name in ("all", "bfloat16"):
            tokens = self.stores[name].ranks()
            shares = {rule: rbp(rank(tokens.greater, tokens.equal, rule), 1) for rule in get_args(TieRule)}
            rows.append({"logits": name, "tied": (tokens.equal > 1).mean(), "most": tokens.equal.max(), **shares})
        return pd.DataFrame(rows)

    def pieces(self, document: int, count: int, rule: TieRule) -> pd.DataFrame:
        """Return the first `count` ranked tokens of a document, as `pieces_of`; ParameterError if it has none."""
        tokens = self.tokens[self.tokens.document == document].head(count)
        if tokens.empty:
            available = sorted(set(self.tokens.document))
            fault = f"document {document} has no ranked tokens"
            raise ParameterError(fault, "document", f"Choose one of {available[0]} to {available[-1]}.")
        return pieces_of(tokens, self.tokenizer, rule)


def rank_variants(model: str, corpus: str, protocol: Protocol, settings: Settings, out: Path) -> RankVariants:
    """Rank `corpus` by `model`, with its logits as computed and rounded to bfloat16, into the folder `out`.

    A path that is not found from here is looked for in the project's folder. Raises as `extract`, and DataError if no
    token has rank 1, or every one has: so little text shows nothing.
    """
    model, corpus = project_path(model), project_path(corpus)
    files = find_model(model)
    open_corpus(corpus, settings.fields)  # so that errors in it come before any run
    _note([str(files.folder)], corpus)
    say_on_stderr()  # how far it is: what goes there is not on the page
    ways = {"all": settings, "bfloat16": replace(settings, round_logits="bfloat16")}
    stores = {name: open_store(extract([files], [corpus], protocol, out, way)[0]) for name, way in ways.items()}
    variants = RankVariants(model, stores)
    first = int((variants.tokens.greater + variants.tokens.equal == 1).sum())
    if first in (0, len(variants.tokens)):
        fault = f"{first} of {len(variants.tokens)} tokens have rank 1, and the chapter compares them with the others"
        raise DataError(fault, corpus, "Rank more tokens, or another text.")
    return variants


def rank_family(folder: str, corpus: str, protocol: Protocol, settings: Settings, out: Path) -> Path:
    """Rank `corpus` by every model below `folder` into rank stores in the folder `out`, which it gives.

    Raises DataError if no folder below it holds a model, and as `extract`.
    """
    folder, corpus = project_path(folder), project_path(corpus)
    models = [str(path.parent) for path in sorted(Path(folder).glob("*/config.json"))]
    if not models:
        raise DataError("the folder holds no models", folder, "A model is a folder with config.json.")
    _note(models, corpus)
    provenance.note_output(out)
    say_on_stderr()
    extract(models, [corpus], protocol, out, settings)
    return out


def width_ratio(ranks: npt.ArrayLike, tokens: pd.DataFrame, k: int, level: float) -> float:
    """Divide the width of RBP_k's interval by documents by the width of its binomial interval."""
    hits = int((np.asarray(ranks) <= k).sum())
    by_tokens = np.exp(-np.array(neg_log_rbp_interval(hits, np.size(ranks), level)))
    by_documents = np.exp(-np.array(neg_log_rbp_document_interval(ranks, independent_units(tokens), k, level)))
    return float(np.ptp(by_documents) / np.ptp(by_tokens))


def project_path(name: str) -> str:
    """Return the path `name` as seen from the working folder, if it is one of the project's; else `name`."""
    return name if Path(name).exists() or not (ROOT / name).exists() else relpath(ROOT / name)


def _note(models: Sequence[str], corpus: str) -> None:
    """Note which of the project's data are read."""
    names = [path for path in [Path(corpus), *(p for m in models for p in Path(m).iterdir())] if path.is_file()]
    provenance.note(*(path for path in names if path.resolve().is_relative_to(DATA)))


def ties_table(ties: pd.DataFrame) -> dict[str, Any]:
    """Show `RankVariants.ties`."""
    names = {"all": "as computed", "bfloat16": "rounded to bfloat16"}
    return shown(
        ties.assign(logits=ties["logits"].map(names)),
        {
            "logits": "logits",
            "tied": ("tokens with equals", "{:.3%}"),
            "most": "most equals",
            **{rule: (f"RBP₁, {rule}", "{:.4f}") for rule in get_args(TieRule)},
        },
        data=ties,
    )


DOCUMENTS, BINOMIAL = "documents", "tokens"
COLOURS = {DOCUMENTS: "#9457C0", BINOMIAL: "#5C8A2E"}  # of no family


def rbp_curve(every: pd.DataFrame, selected: pd.DataFrame) -> dict[str, Any]:
    """Plot RBP_k against k, and how wide its two intervals are.

    every: k, rbp; selected: k, value (−ln RBP_k), low, high (binomial), document_low, document_high.
    """
    columns = {DOCUMENTS: ("document_low", "document_high"), BINOMIAL: ("low", "high")}

    def shares(ax: Axes) -> None:
        ax.step(every["k"], every["rbp"], where="post", color=COLOURS[BINOMIAL], linewidth=1.6)
        for name, width in ((DOCUMENTS, 1.4), (BINOMIAL, 4.0)):
            low, high = (np.exp(-selected[end]) for end in reversed(columns[name]))
            ax.vlines(selected["k"], low, high, color=COLOURS[name], linewidth=width, label=f"by {name}")
        ax.yaxis.set_major_formatter(PercentFormatter(1))
        ax.set_ylabel(f"{rbp_label()}: share of tokens with rank ≤ k")
        ax.set_ylim(0, 1.02)
        ax.legend(loc="lower right")

    def widths(ax: Axes) -> None:
        for name, marker in ((DOCUMENTS, "o"), (BINOMIAL, "s")):
            low, high = (np.exp(-selected[end]) for end in reversed(columns[name]))
            ax.plot(selected["k"], 100 * (high - low), marker=marker, color=COLOURS[name], label=f"by {name}")
        ax.set_ylabel("width of the interval (percentage points)")
        ax.set_ylim(bottom=0)
        ax.legend(loc="upper right")

    def draw(ax: Axes, key: str) -> None:
        (shares if key == rbp_label() else widths)(ax)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ax.set_xlabel("threshold k")

    return {
        "figure": Panels((rbp_label(), "width of the intervals"), draw),
        "alt": "RBP at k rises with the threshold k to one; its interval by documents is wider than that by tokens",
        "data": every,
    }


# ── The survey of architectures (tests/survey.py)

FOLDER = DATA / "faults"
_SURVEYED = pa.DataFrameSchema(
    {
        **{
            name: pa.Column("str")
            for name in ("model", "variant", "route", "padding", "memory", "reason", "transformers")
        },
        "outcome": pa.Column("str", pa.Check.isin(["exact", "wrong", "refused", "not built"])),
        "tokens": pa.Column("int64"),
        "near": pa.Column("int64"),
    }
)


def architectures() -> pd.DataFrame:
    """Read the survey of causal architectures (tests/survey.py), a row for each model that was tried. Raises DataError.

    Columns model, variant, outcome ("exact", "wrong", "refused", "not built"), route (what is ranked: "one matrix" or
    "own logits"), padding ("unseen" or "seen"), memory (what the model keeps of what it reads: "none" or "kept"),
    tokens (ranked), near (how many have another logit within rounding), reason, and transformers (its version).
    """
    path = FOLDER / "architectures.csv"
    table = read_csv(path).fillna(dict.fromkeys(("variant", "route", "padding", "memory", "reason"), ""))
    return checked(table, _SURVEYED, path, keys=("model", "variant"), remedy="Make it: make test-slow.")


def by_outcome(table: pd.DataFrame) -> pd.DataFrame:
    """Group `architectures`, the largest groups first.

    Columns outcome, ranked (from what), padding, memory, why (not exact), models (how many), tokens.
    """
    groups = table.assign(why=table["reason"].map(_why)).groupby(
        ["outcome", "route", "padding", "memory", "why"], sort=False
    )
    columns = {"models": ("model", "size"), "tokens": ("tokens", "sum")}
    grouped = groups.agg(**columns).reset_index().rename(columns={"route": "ranked"})
    return grouped.sort_values(["outcome", "models"], ascending=[True, False], ignore_index=True, key=_exact_first)


def outcomes(table: pd.DataFrame) -> dict[str, int]:
    """Count families and models of `architectures`, tokens ranked exactly, and outcomes."""
    exact, counts = table[table["outcome"] == "exact"], table["outcome"].value_counts()
    totals = {"families": table["model"].nunique(), "models": len(table), "tokens": int(exact["tokens"].sum())}
    kinds = ("exact", "wrong", "refused", "not built")
    return totals | {kind.replace(" ", "_"): int(counts.get(kind, 0)) for kind in kinds}


def architectures_table(surveyed: pd.DataFrame) -> dict[str, Any]:
    """Show the groups of `by_outcome`; the download is the whole survey."""
    return shown(
        by_outcome(surveyed).replace({"": None}),
        {
            "outcome": "outcome",
            "models": "models",
            "ranked": "ranked from",
            "padding": "padding is",
            "memory": "memory",
            "why": "why",
            "tokens": ("tokens", "{:,}"),
        },
        data=surveyed,
    )


def _why(reason: str) -> str:
    """Shorten a reason by what differs from model to model."""
    if reason.startswith("the model cannot read a row"):
        return "its own code raises"
    for cause in ("the model sees the tokens that it is asked to predict", "cannot load the model"):
        if reason.startswith(cause):
            return cause
    return reason and "transformers does not build it from a small configuration"


def _exact_first(column: pd.Series) -> pd.Series:
    return column.map({"exact": 0, "wrong": 1, "refused": 2, "not built": 3}) if column.name == "outcome" else column
