"""Claims on the law itself, its range, its data, and what happens at large k."""

from rbp.paper.claims.ledger import OWN, Judged, Numbers, claim
from rbp.paper.claims.rules import (
    Rule,
    above,
    at_least,
    share,
    share_of,
    within,
)

LAW = "The law"


@claim(
    31,
    LAW,
    "abstract: “robustness and accuracy”; our test",
    "The law is accurate: fitted to the smaller models, it predicts the larger ones.",
    rule="a cut is a family with its one largest model hidden, its two largest, and so on, while three sizes are left (k = 1, 10 and "
    "100, all texts); holds if the 95% prediction intervals cover 90% of the forecasts at nine in ten cuts; in part if errors are at "
    "most 5% at the median at most cuts",
    evidence="forecasts#every-cut",
    group=OWN,
    core=True,
)
def _(n: Numbers) -> Judged:
    key = "forecasts::cut"
    covered, errors = n.all(f"{key}.covered_share."), n.all(f"{key}.error_median.")
    rule = Rule(
        at_least(share_of(covered, ">=", "covered"), "cuts"),
        above(share_of(errors, "<=", "error"), "most"),
        {
            "covered": share("forecasts inside their interval at a cut", 0.9),
            "error": within("median error in per cent at a cut", 5, 20, 0.5),
            "cuts": share("cuts with intervals that cover, to hold", 0.9),
            "most": share("cuts with errors so small, in part: more than", 0.5),
        },
    )
    good, small = sum(each >= 0.9 for each in covered), sum(each <= 5 for each in errors)
    two, six = (f"{n.count(f'{key}.optimistic.Pythia.h{h}')} of {n.count(f'{key}.count.Pythia.h{h}')}" for h in (2, 6))
    return rule, (
        f"Intervals cover 90% of the forecasts at {good} of {len(covered)} cuts, and errors are 5% or less at the median at {small}. "
        f"Which way the law errs depends on the cut: with Pythia's two largest models hidden, {two} forecasts are better than what the "
        f"model then reached, with its six largest {six}. With one hidden, over all families, "
        f"{n.count('forecasts::cuts.one.optimistic')} of {n.count('forecasts::cuts.one.count')}. The cross-entropy of "
        f"{n.count('forecasts::control.models')} hidden models (Pythia's two largest, GPT-2's largest; Wikipedia) is missed by "
        f"{n.number('forecasts::control.error_median'):.1f}% at the median, and too hopefully for "
        f"{n.count('forecasts::control.optimistic')}."
    )
