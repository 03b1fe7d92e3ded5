"""Claims on the law itself, its range, its data, and what happens at large k."""

from rbp.paper.claims.ledger import OWN, Judged, Numbers, claim
from rbp.paper.claims.rules import (
    Bar,
    Rule,
    at_least,
    at_most,
    by_share,
    every,
    share,
    within,
)

LAW, DATA = "The law", "Models and measurements"


def _orders(says: str, at: float) -> Bar:
    return Bar(says, at, 0, 8, 0.1)


@claim(
    5,
    LAW,
    "introduction",
    "R² of the RBP law is comparable to that of cross-entropy.",
    rule="holds if the two printed R² at k = 1 differ by at most 0.01, in either direction, in nine of ten cells of Table 1; in part "
    "if in most",
    evidence="cross_entropy",
    core=True,
)
def _(n: Numbers) -> Judged:
    cells, close = n.count("cross_entropy::printed_cells"), n.count("cross_entropy::r_squared_within_001")
    at_least = n.count("cross_entropy::r_squared_comparable")
    return by_share(close / cells, "cells that differ by at most 0.01", holds=0.9), (
        f"They differ by at most 0.01 in {close} of {cells} cells; of the other {cells - close}, RBP's is higher in {at_least - close}. "
        f"The largest gap is {n.word('cross_entropy::r_squared_worst')}: "
        f"{n.number('cross_entropy::r_squared_worst_ce'):.3f} for cross-entropy, "
        f"{n.number('cross_entropy::r_squared_worst_rbp'):.3f} for RBP₁."
    )


@claim(
    31,
    LAW,
    "abstract: “robustness and accuracy”; our test",
    "The law is accurate: fitted to the smaller models, it predicts the larger ones.",
    rule="holds if the 95% prediction intervals cover 90% of the models left out; in part if errors are 5% at the median",
    evidence="forecasts#hidden-models",
    group=OWN,
    core=True,
)
def _(n: Numbers) -> Judged:
    covered, count = n.count("forecasts::forecast.covered.all"), n.count("forecasts::forecast.count.all")
    error = n.number("forecasts::forecast.error_median.all")
    own, all_own = n.count("forecasts::forecast.covered.Pythia"), n.count("forecasts::forecast.count.Pythia")
    rule = Rule(
        at_least(covered / count, "covered"),
        at_most(error, "error"),
        {
            "covered": share("models inside their interval, to hold", 0.9),
            "error": within("median error in per cent, in part", 5, 20, 0.5),
        },
    )
    return rule, (
        f"The error is {error:.1f}% at the median of {count} forecasts, but only {covered} lie in their interval; of Pythia's, "
        f"with ten sizes the sharpest test, {own} of {all_own}. {n.count('forecasts::forecast.optimistic.all')} "
        "of the forecasts are better than what the model then reached. So are those of cross-entropy by the same law, "
        f"{n.count('forecasts::control.optimistic')} of {n.count('forecasts::control.models')}, missed by "
        f"{n.number('forecasts::control.error_median'):.1f}% at the median: the law is too hopeful, not RBP."
    )


@claim(
    7,
    DATA,
    "introduction; appendix A",
    "The law covers 24 models over five orders of magnitude of S (“over four” in appendix A).",
    rule="holds if there are 24 models and log₁₀ of largest over smallest S is at least 5; in part if 24, and at least 4",
    evidence="measurements",
)
def _(n: Numbers) -> Judged:
    models, orders = n.count("measurements::models"), n.number("measurements::sizes_orders_of_magnitude")
    rule = Rule(
        every(models == 24, at_least(orders, "holds")),
        every(models == 24, at_least(orders, "part")),
        {"holds": _orders("orders of magnitude, to hold", 5), "part": _orders("orders of magnitude, in part", 4)},
    )
    return rule, (
        f"There are {models} models, and S spans {orders:.2f} orders of magnitude: appendix A is right, “five” is not. "
        f"Only Pythia spans more than two: GPT-2 spans "
        f"{n.number('measurements::sizes_orders_of_magnitude.GPT-2'):.1f}, OPT "
        f"{n.number('measurements::sizes_orders_of_magnitude.OPT'):.1f}, Qwen2.5 "
        f"{n.number('measurements::sizes_orders_of_magnitude.Qwen2.5'):.1f}."
    )


@claim(
    8,
    DATA,
    "appendix A",
    "The thresholds k span over five orders of magnitude.",
    rule="holds if log₁₀ of the largest over the smallest k that was published is at least 5; in part if they fall into five decades, as "
    "who counts ones, tens, … would say",
    evidence="measurements",
)
def _(n: Numbers) -> Judged:
    orders = n.number("measurements::thresholds_orders_of_magnitude")
    low, high = n.count("measurements::threshold_min"), n.count("measurements::threshold_max")
    decades = len(str(high)) - len(str(low)) + 1
    rule = Rule(
        at_least(orders, "orders"),
        at_least(decades, "decades"),
        {"orders": _orders("orders of magnitude, to hold", 5), "decades": Bar("decades, in part", 5, 0, 8, 1)},
    )
    return rule, (
        f"The published thresholds run from {low} to {high:,}: a factor of {orders:.1f} orders, in {decades} decades. A factor of five "
        "orders would need k above 100 000, which only Qwen2.5's vocabulary has room for, and Qwen2.5 is left out at large k."
    )


@claim(
    9,
    DATA,
    "appendix A",
    "Every point averages at least 500 000 tokens.",
    rule="holds if every number of tokens that can be recovered from the published shares reaches 500 000; in part if half do",
    evidence="measurements",
)
def _(n: Numbers) -> Judged:
    known, fewer = n.count("measurements::cells_known"), n.count("measurements::cells_below_stated")
    return by_share((known - fewer) / known, "numbers of tokens that reach 500 000"), (
        f"It is below 500 000 in {fewer} of {known} combinations of family and dataset: shares are whole counts over whole counts, "
        f"which gives the number of tokens away in these {known} of {n.count('measurements::cells')}. It is "
        f"{n.count('measurements::tokens.wikipedia.GPT-2'):,} for GPT-2 on Wikipedia (an exact count), and as few as "
        f"{n.count('measurements::tokens_min'):,} on HotpotQA. On Australian legal text it is near 500 000."
    )


@claim(
    13,
    DATA,
    "4.3, footnote 2",
    "The vocabularies have 50 256 (Pythia), 50 272 (OPT) and 50 257 (GPT-2) entries.",
    rule="holds if the models' configurations say so of all three families; in part if of some",
    evidence="measurements",
)
def _(n: Numbers) -> Judged:
    agree = [
        family for family in ("Pythia", "OPT", "GPT-2") if n.word(f"measurements::vocabulary_agrees.{family}") == "yes"
    ]
    sizes = sorted({round(value) for value in n.all("measurements::vocabulary.Pythia.")})
    listed = ", ".join(f"{size:,}" for size in sizes[:-1]) + f" or {sizes[-1]:,}"
    return Rule(len(agree) == 3, bool(agree)), (
        f"It agrees for {' and '.join(agree)}. Pythia's models score {listed} entries, depending on the model: padded rows included."
    )


@claim(
    36,
    DATA,
    "4.3, footnote 2",
    "With k of 20 000 and 30 000, the chosen k nearly cover the entire vocabulary.",
    rule="holds if the largest k is at least nine tenths of the vocabulary's entries; in part if at least nine tenths of the tokens of "
    "every text are among the first 20 000",
    evidence="measurements",
)
def _(n: Numbers) -> Judged:
    entries, covered = n.number("measurements::threshold_share_of_vocabulary"), n.number("measurements::covered_min")
    rule = Rule(
        at_least(entries, "entries"),
        at_least(covered, "tokens"),
        {"entries": share("entries covered, to hold", 0.9), "tokens": share("tokens covered, in part", 0.9)},
    )
    return rule, (
        f"k = 30 000 is {entries:.0%} of GPT-2's entries. But rare entries are rarely the truth: at least {covered:.1%} of the tokens of a "
        "text are among the first 20 000."
    )


@claim(
    37,
    DATA,
    "4.3, footnote 2",
    "Qwen2.5's vocabularies have 151 936 entries for models up to 7B, and 152 064 for larger ones.",
    rule="holds if the models' configurations say so of every model; in part if the two sizes are right",
    evidence="measurements",
)
def _(n: Numbers) -> Judged:
    sizes = [n.count(f"measurements::vocabulary.Qwen2.5.{i}") for i in range(2)]
    larger = n.word("measurements::vocabulary.Qwen2.5.large")
    right = sizes == [151_936, 152_064]
    return Rule(right and larger == "Qwen2.5-14B", right), (
        f"The sizes are {' and '.join(f'{size:,}' for size in sizes)}, and the larger one is that of {larger}: "
        "the 7B model is on the other side."
    )
