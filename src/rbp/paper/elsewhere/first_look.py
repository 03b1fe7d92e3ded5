"""What a first look at others' ranks found, computed once by hand, beside what is found here."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.evidence import outside
from rbp.evidence.published import models
from rbp.paper.cross_entropy import large
from rbp.paper.display import Columns, shown
from rbp.paper.elsewhere.ratios import IMAGES, LADDER, SNAPSHOT, TEXT
from rbp.paper.families import exponents

_SETS = tuple(outside.PICTURES)
_BOUND = 5e-6  # a probability printed as 0 with five digits is less


def first_look(found: pd.DataFrame, tops: pd.DataFrame, in_k: pd.DataFrame, problems: pd.DataFrame) -> pd.DataFrame:
    """Each number of the first look beside what is found here: columns source, what, said, here, verdict.

    found: `ratios.of_models` and its like with `own_curves`; tops: `theory.top_five`; in_k: `law_in_k.fit_in_k` of the
    published models; problems: `ratios.of_problems`. Confirmed: the same digits.
    """
    rows = [*_images(found, tops), *_text(found, in_k), *_tries(problems), *_detectors(), *_gltr()]
    table = pd.DataFrame(rows, columns=["source", "what", "said", "here"])
    return table.assign(verdict=np.where(table["said"] == table["here"], "confirmed", "corrected"))


Row = tuple[str, str, str, str]


def _images(found: pd.DataFrame, tops: pd.DataFrame) -> Iterable[Row]:
    sets = [found[(found["source"] == IMAGES) & (found["dataset"] == name)] for name in _SETS]
    for name, own, said in zip(_SETS, sets, ("59 of 59", "58 of 59", "52 of 57"), strict=True):
        yield "images", f"families with α₅/α₁ above 1, {name}", said, f"{(own['ratio'] > 1).sum()} of {len(own)}"
    first = sets[0]
    yield (
        "images",
        "α₅/α₁, lowest, median and highest family, imagenet",
        "1.35, 1.76, 2.41",
        _row(first["ratio"].quantile([0, 0.5, 1]), 2),
    )
    yield "images", "R² of the laws, imagenet", "0.52 to 0.99", _ends(first["r_squared"], 2)
    tops = tops.set_index("dataset").loc[list(_SETS)]
    yield "images", "slope of ln(−ln RBP₅) on ln(−ln RBP₁)", "1.87, 1.64, 1.40", _row(tops["slope_naive"], 2)
    yield "images", "its R²", "0.977, 0.981, 0.987", _row(tops["r_squared_naive"], 3)


def _text(found: pd.DataFrame, in_k: pd.DataFrame) -> Iterable[Row]:
    pythia = found[(found["source"] == TEXT) & (found["family"] == "Pythia")]
    for dataset, measured, ends in (
        ("wikipedia", "1.69, 2.47", ("0.86 to 0.95", "1.06 to 1.13")),
        ("auslegal", "1.55, 1.98", ("0.83 to 1.00", "1.04 to 1.20")),
    ):
        own = pythia[(pythia["dataset"] == dataset) & pythia["k"].isin([10, 100])].sort_values("k")
        if len(own) < 2:
            continue
        yield "published", f"Pythia’s α₁₀/α₁, α₁₀₀/α₁, {dataset}", measured, _row(own["ratio"], 2)
        for row, said in zip(own.to_dict("records"), ends, strict=True):
            what = f"the same at k = {row['k']} of its own curves moved, {dataset}"
            yield "published", what, said, f"{row['moved_low']:.2f} to {row['moved_high']:.2f}"
    own = in_k[(in_k["family"] == "Pythia") & (in_k["dataset"] == "wikipedia")]
    if len(own):
        yield "published", "Pythia’s exponents in k, wikipedia", "0.34 to 0.54", _ends(own["alpha"], 2)
    last = found[(found["source"] == LADDER) & (found["family"] == "neox") & (found["k"] == 100)].set_index("dataset")
    for dataset, said in (("wikipedia", "1.75 against 1.95"), ("hotpotqa", "1.51 against 2.08")):
        for ratio, moved in last.loc[last.index == dataset, ["ratio", "moved"]].to_numpy():
            here = f"{ratio:.2f} against {moved:.2f}"
            yield "ladder", f"α₁₀₀/α₁ measured against one moved curve, {dataset}", said, here


def _tries(problems: pd.DataFrame) -> Iterable[Row]:
    last = problems[problems["k"].isin([10, 100])].sort_values("k")
    if len(last) == 2:
        alphas = [last["alpha_1"].iloc[0], *last["alpha"]]
        yield "tries", "exponents of −ln pass@k, k = 1, 10, 100", "0.154, 0.228, 0.347", _row(alphas, 3)
    tried = outside.problem_tries()
    tried = tried[tried["training_tokens"] == SNAPSHOT]
    enough = tried["samples"] >= 1000
    yield "tries", "problems and models with 1 000 samples", "736 of 1152", f"{enough.sum()} of {len(tried)}"
    for said, what, own in (
        ("0.43", "with those alone", tried[enough]),
        ("0.27", "with k capped at the samples", tried),
    ):
        yield "tries", f"exponent at k = 1 000, {what}", said, f"{_at_1000(own):.2f}"


def _at_1000(tried: pd.DataFrame) -> float:
    """The exponent of −ln pass@1000, where a problem with fewer samples has its pass@(samples)."""
    size, value = [], []
    sizes = models().set_index("name")["non_embedding_params"]
    for name, own in tried.groupby("model"):
        capped = [
            outside.pass_at(min(1000, n), pd.Series([n]), pd.Series([c]))[0]
            for n, c in own[["samples", "correct"]].to_numpy()
        ]
        if (mean := float(np.mean(capped))) > 0:
            size.append(float(sizes[name]))
            value.append(-np.log(mean))
    return float(exponents(size, np.log([value]))[0])


def _detectors() -> Iterable[Row]:
    lines = large.lines(outside.detector_documents())
    people, machines = (lines[lines["written_by"] == author].set_index("dataset") for author in ("human", "model"))
    people = people.loc[["xsum", "squad", "writing"]]
    yield (
        "detectors",
        "R² of E ln R on cross-entropy, five models",
        "0.9994, 0.9995, 0.9997",
        _row(people["r_squared"], 4),
    )
    yield "detectors", "slopes", "0.608, 0.620, 0.646", _row(people["slope"], 3)
    yield "detectors", "largest residual, per cent", "0.37", f"{people['largest'].max():.2f}"
    yield "detectors", "R² of models’ own texts", "0.993 to 0.996", _ends(machines["r_squared"], 3)
    yield "detectors", "slopes", "0.49 to 0.51", _ends(machines["slope"], 2)


def _gltr() -> Iterable[Row]:
    own = outside.gltr_tokens().query("text == 'NYTimes'")
    shares = [(own["greater"] < k).mean() for k in (1, 10, 100)]
    yield "gltr", "RBP₁, RBP₁₀, RBP₁₀₀ of a newspaper’s text", "0.433, 0.709, 0.889", _row(shares, 3)
    unknown = int((own["probability"] == 0).sum())
    yield "gltr", "probabilities printed as 0", "6 of 395", f"{unknown} of {len(own)}"
    nats = -np.log(own["probability"].clip(lower=_BOUND)).mean()
    yield "gltr", "cross-entropy, at least", "3.15", f"{nats:.2f}"


def _row(values: Sequence[float] | pd.Series, digits: int) -> str:
    return ", ".join(f"{each:.{digits}f}" for each in values)


def _ends(values: pd.Series, digits: int) -> str:
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


def first_look_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The first look, confirmed or corrected (`first_look`)."""
    columns: Columns = {"source": "Source", "what": "what", "said": "first look", "here": "here", "verdict": ""}
    caption = (
        "<b>A first look, computed once by hand, and the same here.</b> Its families of images followed another rule; "
        "a curve’s exponent at one k depends on which neighbours tell it."
    )
    return shown(table, columns, caption=caption, ranked=True)
