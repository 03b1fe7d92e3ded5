"""Score what was registered before models were trained or measured, all by one rule.

data/predictions/registry.csv gives each forecast an id: the file and the entry in it, the file's date, and the function
that gives the outcome (`companion.chapters.outcomes`). A forecast of a number is a density: a normal distribution in
two halves that meet at `middle`, each with half of the probability, so that a tenth lies below `low` and a tenth above
`high`. A naive guess is a normal distribution with its interval. The log score is the logarithm of the density (or of
the probability) that was given to the outcome: higher is better, and their difference does not depend on the unit.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import binom, norm

from companion.chapters.families import LSTM, TRANSFORMER
from companion.plots import SIGNED, name_rows
from companion.project import DATA
from ladder.shipped import FIRST, counted
from rbp import provenance
from rbp.errors import DataError
from rbp.figures.style import FAINT, INK, Panels
from rbp.io import label
from rbp.measurements.counts import Counts
from rbp.report.display import Columns, shown

MISS = "#C2571A"  # of outcomes outside their interval; no family's colour
NOT_TRAINED = "its family was not trained"  # as the registry says of what cannot be tested
FOLDER = DATA / "predictions"
_REMEDY = "Restore it: git checkout -- data/predictions."

#: what gives the outcomes of a file, by the registry's functions: the arguments, or levels of the index, are fields
Outcomes = dict[str, "pd.Series[Any] | Callable[..., Any]"]


def read_forecasts(file: str) -> pd.DataFrame:
    """Read the forecasts of a file of data/predictions, as the registry lists them; the index is their id.

    Columns date, function, untested (why there is no outcome), kind and prediction (how pages name them), fields (of
    the entry), level (the probability of the intervals); middle, low, high, naive_low and naive_high of a number,
    probability, naive and sure of an event; reason. Raises DataError for a malformed file.
    """
    registry, path = pd.read_csv(FOLDER / "registry.csv", keep_default_na=False), FOLDER / f"{file}.toml"
    rows = []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for entry in registry[registry["file"] == file].to_dict("records"):
            kind, *places = entry["entry"].split(".")
            for place, fields in _find(content[kind], places, {}):
                number = "middle" in fields
                naive = fields.get("naive")
                low, high = naive if number and naive else (np.nan, np.nan)
                numbers = {"naive_low": low, "naive_high": high, "naive": np.nan if number else naive}
                stated = {name: fields.get(name) for name in ("middle", "low", "high", "probability", "reason")}
                row = entry | stated | numbers | {"sure": fields.get("sure", False), "level": content["level"]}
                rows.append(row | {"id": f"{entry['id']}{place}", "fields": fields})
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(f"the file does not hold predictions: {error}", label(path), _REMEDY) from None
    provenance.note(path)
    provenance.note(FOLDER / "registry.csv")
    floats = dict.fromkeys(("middle", "low", "high", "naive_low", "naive_high", "probability", "naive"), float)
    return pd.DataFrame(rows).drop(columns=["file", "entry"]).set_index("id").astype(floats)


def _find(node: Any, entry: Sequence[str], fields: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of an entry, with those of the tables that it lies in; * stands for all entries of a list.

    With the places that * stands for, as an id ends in. A bare list is an interval.
    """
    if isinstance(node, dict):
        fields = {**fields, **node}
    if not entry:
        interval = dict(zip(("low", "middle", "high"), node, strict=True)) if isinstance(node, list) else {}
        yield "", {"dataset": fields.get("text"), **fields, **interval}
        return
    for place in range(len(node)) if entry[0] == "*" else [int(entry[0]) if isinstance(node, list) else entry[0]]:
        for rest, fields_below in _find(node[place], entry[1:], fields):
            yield (f".{place}" if entry[0] == "*" else "") + rest, fields_below


def measure(forecasts: pd.DataFrame, outcomes: Outcomes) -> pd.DataFrame:
    """Add `outcome` to each forecast: a number, 1 or 0 of an event; missing where nothing was measured."""
    pairs = zip(forecasts["function"], forecasts["fields"], strict=True)
    values = [find_outcome(outcomes, function, fields) if function else np.nan for function, fields in pairs]
    return forecasts.assign(outcome=np.array(values, dtype=np.float64))


def find_outcome(outcomes: Outcomes, function: str, fields: Mapping[str, Any]) -> float:
    """Return what a function gives for the fields of an entry; NaN where a table has no such row."""
    source = outcomes[function]
    if callable(source):
        return float(source(**{name: fields[name] for name in signature(source).parameters}))
    key = tuple(fields[str(name)] for name in source.index.names)
    return float(source.get(key if len(key) > 1 else key[0], np.nan))


def score(table: pd.DataFrame) -> pd.DataFrame:
    """Score the forecasts of `measure` that have an outcome, a row each.

    inside, naive_inside: whether the interval holds the outcome (missing of events); score, naive_score: log scores, of
    numbers in nats of their own unit; gain: ours less the naive one; better: it is above 0; away: the outcome in
    standard deviations from the middle, on its side.
    """
    tested = table[table["outcome"].notna()]
    columns = ["outcome", "middle", "low", "high", "naive_low", "naive_high", "probability", "naive", "level"]
    outcome, middle, low, high, naive_low, naive_high, chance, naive, level = tested[columns].to_numpy(np.float64).T
    wide, event = norm.ppf((1 + level) / 2), np.isfinite(chance)
    spread = np.where(outcome >= middle, high - middle, middle - low) / wide
    density = norm.logpdf(outcome, middle, spread)
    naive_density = norm.logpdf(outcome, (naive_low + naive_high) / 2, (naive_high - naive_low) / 2 / wide)
    tested = tested.assign(
        away=(outcome - middle) / spread,
        inside=np.where(event, np.nan, (low <= outcome) & (outcome <= high)),
        naive_inside=np.where(event, np.nan, (naive_low <= outcome) & (outcome <= naive_high)),
        score=np.where(event, np.log(np.where(outcome == 1, chance, 1 - chance)), density),
        naive_score=np.where(event, np.log(np.where(outcome == 1, naive, 1 - naive)), naive_density),
    )
    gain = tested["score"] - tested["naive_score"]
    return tested.assign(gain=gain, better=gain > 0)


def count_inside(table: pd.DataFrame) -> dict[str, float]:
    """Count how many intervals of `score` hold, and how many independent ones of this probability would.

    intervals, inside, naive_inside, better (than the naive guess, in log score); likely_low, likely_high: the central
    95% of the binomial distribution; p: of so few or fewer. Predictions of one set of models are not independent, which
    makes the true range wider, and p larger.
    """
    numbers = table.dropna(subset="inside")
    level = numbers["level"].iloc[0]
    low, high = binom.interval(0.95, len(numbers), level)
    held = {name: int(numbers[name].sum()) for name in ("inside", "naive_inside")}
    counts: dict[str, float] = {"intervals": len(numbers), **held, "better": int((numbers["gain"] > 0).sum())}
    p = float(binom.cdf(held["inside"], len(numbers), level))
    return counts | {"likely_low": int(low), "likely_high": int(high), "p": p}


def name_extremes(table: pd.DataFrame) -> dict[str, str]:
    """Name the predictions that gained most and least over the naive guess (`score`)."""
    return {
        "worst": table["prediction"].iloc[table["gain"].argmin()],
        "best": table["prediction"].iloc[table["gain"].argmax()],
    }


def summarize_events(table: pd.DataFrame, likely: float) -> dict[str, int]:
    """Count the events, all, happened, and called nearly certain: given a probability of `likely` or more."""
    events = table[table["probability"].notna()]
    sure = table["sure"] | (table["probability"] >= likely) | (table["probability"] <= 1 - likely)
    counts = {"events": len(events), "events_happened": int(events["outcome"].sum())}
    return counts | {"sure_tested": int(sure.sum()), "sure_right": int((table["outcome"][sure] == 1).sum())}


def score_kinds(forecasts: pd.DataFrame, tested: pd.DataFrame) -> pd.DataFrame:
    """Sum the scores of each kind of prediction, a row each.

    Columns kind, made, tested, inside (how many intervals hold; missing of events), better (than the naive guess), gain
    (the sum of the log scores over the naive ones).
    """
    counts = forecasts.groupby("kind", sort=False).size().rename("made").reset_index()
    scores = tested.groupby("kind").agg(
        tested=("gain", "size"),
        inside=("inside", lambda inside: inside.sum(min_count=1)),
        better=("better", "sum"),
        gain=("gain", "sum"),
    )
    return counts.merge(scores, how="left", on="kind").fillna({"tested": 0, "better": 0, "gain": 0.0})


def largest_against_known(texts: Sequence[Counts]) -> float:
    """Divide the largest size trained by the largest of the first ladder, from which the forecasts were made."""
    first_ladder = counted([1], families=[FIRST])[0].of(FIRST)
    return float(max(texts[0].of(family).sizes.max() for family in (TRANSFORMER, LSTM)) / first_ladder.sizes.max())


# ── What the page shows


def plot_scores(files: Mapping[str, pd.DataFrame], level: float) -> Panels:
    """Plot where the outcomes fell in the predicted distributions: a panel for each file, a row for each kind.

    files: kind, away and inside of each prediction of a number. Filled: inside the interval, which is shaded; hollow:
    outside; arrows: beyond the view.
    """
    wide, reach = norm.ppf((1 + level) / 2), 4.0

    def draw(ax: Axes, name: str) -> None:
        labels = files[name]["kind"].unique().tolist()
        ax.axvspan(-wide, wide, color=FAINT, alpha=0.6, lw=0)
        ax.axvline(0, color=INK, lw=0.9)
        for i, kind in enumerate(labels):
            rows = files[name][files[name]["kind"] == kind].sort_values("away")
            offsets = np.linspace(-0.3, 0.3, len(rows)) if len(rows) > 1 else np.zeros(1)
            inside = rows["inside"].eq(1).to_numpy()
            x, y = rows["away"].to_numpy(float), i + offsets
            ax.plot(x[inside], y[inside], "o", color=INK, ms=5, mew=0)
            for seen, marker in ((np.abs(x) <= reach, "o"), (x > reach, ">"), (x < -reach, "<")):
                missed = ~inside & seen
                ax.plot(x[missed].clip(-reach, reach), y[missed], marker, color=MISS, mfc="none", mew=1.4, ms=5.5)
        name_rows(ax, [fill(kind, 32, break_on_hyphens=False) for kind in labels])
        ax.set_xlim(-1.08 * reach, 1.08 * reach)
        ax.xaxis.set_major_formatter(SIGNED)
        ax.set_xlabel("predicted standard deviations")
        ax.set_title(name)
        ax.spines.left.set_visible(False)

    return Panels(list(files), draw, size=(4.6, 4.5))


def score_files(files: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Compare the files' scores with both naive guesses, a row each, for `Page.table`.

    files: tables with the columns of `score` and `with_fair_guess`.
    """
    rows = []
    for name, table in files.items():
        numbers = table.dropna(subset="inside")
        row = {"file": name, **count_inside(numbers)}
        fair = numbers.dropna(subset="fair_gain")
        if len(fair):
            row |= {"fair": len(fair), "fair_inside": int(fair["fair_inside"].sum())}
            row |= {"fair_better": int((fair["fair_gain"] > 0).sum())}
        rows.append(row | {"gain": table["gain"].sum()})
    columns: Columns = {
        "file": "registered about",
        ("inside", "intervals"): ("intervals that hold", "{:.0f} of {:.0f}"),
        ("likely_low", "likely_high"): ("likely", "{:.0f} to {:.0f}"),
        "naive_inside": "naive ones",
        ("better", "intervals"): ("beat the naive guess", "{:.0f} of {:.0f}"),
        "gain": ("log score gained", "{:+.1f}"),
        ("fair_inside", "fair"): ("fair guesses that hold", "{:.0f} of {:.0f}"),
        ("fair_better", "fair"): ("beat the fair guess", "{:.0f} of {:.0f}"),
    }
    return shown(pd.DataFrame(rows), columns)


def list_predictions(table: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """List all predictions of `measure` with their `scores`, for a download."""
    listed = table.join(scores[scores.columns.difference(table.columns, sort=False)]).reset_index()
    listed = listed.drop(columns=["function", "fields", "level", "kind"])
    first = ["id", "date", "prediction"]
    return listed[[*first, *listed.columns.drop(first)]].replace("", np.nan).dropna(axis="columns", how="all")


def stack_files(files: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Stack the predictions of several files, with a column that names the file."""
    columns = ["kind", "middle", "low", "high", "outcome", "away", "inside"]
    stacked = pd.concat([table[columns].assign(file=name) for name, table in files.items()], ignore_index=True)
    return stacked.rename(columns={"kind": "label"})
