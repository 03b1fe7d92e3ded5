"""Claims on the law itself, its range, its data, and what happens at large k."""

from rbp.paper.claims.ledger import OWN, Judged, Numbers, claim
from rbp.paper.claims.rules import (
    Rule,
    at_least,
    at_most,
    by_share,
    share,
    within,
)

LAW = "The law"


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
