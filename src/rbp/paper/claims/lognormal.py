"""Claims on lognormal ranks: section 5.2 and appendix C, and what the earlier version said in their place."""

from rbp.paper.appendix_c.notation import FOLLOWS
from rbp.paper.appendix_c.notation import PART as CONDITION
from rbp.paper.claims.ledger import EARLIER, Judged, Numbers, claim
from rbp.paper.claims.rules import Rule, at_least, at_most, below, every, met, r_squared, within

LOGNORMAL = "Lognormal ranks"
_EXACT = ("10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "21")


@claim(
    20,
    LOGNORMAL,
    "5.2, figure 8c",
    "The distribution of ranks has a long tail, and a lognormal fits it well.",
    rule="holds if, at every model of figure 8c, there is a best lognormal with rank 1 too, and the fit from rank 2 has R² of at least 0.97 "
    "(4.2) in the logarithms that the figure shows; in part if only the second",
    evidence="rank_distributions#gaps",
    core=True,
)
def _(n: Numbers) -> Judged:
    key = "rank_distributions::"
    worst, limits = n.number("predicted_curves::figure_8c.r_squared_min"), n.count("predicted_curves::limits")
    models = n.count("predicted_curves::fitted_models")
    fits = at_least(worst, "good")
    return Rule(every(fits, limits == 0), fits, {"good": r_squared("R² of every fit from rank 2", 0.97)}), (
        f"As drawn, yes: R² is at least {worst:.3f} at all {models} models, from rank 2 up; the test is mild, and a power law reaches up to "
        f"{n.number('predicted_curves::figure_8c.r_squared_power_law'):.3f}. With rank 1, which figure 8c leaves out, there is "
        f"no best lognormal at {limits} of them: σ runs to infinity, and a power law is left. Well is not best: from rank 2 it is "
        f"{n.word(f'{key}lognormal_place.2')}; likelier with as few parameters: {n.word(f'{key}better_2')}. As a family for all ranks it is "
        f"{n.word(f'{key}lognormal_place.1')}."
    )


@claim(
    21,
    LOGNORMAL,
    "5.2, figure 8b",
    "From μ and σ, the formula predicts both curves, with nearly identical power-law decay.",
    rule="holds if the paired interval of the predicted exponents includes 0 and levels are met within 10%; in part if one of the two",
    evidence="predicted_curves#figure-8b",
    core=True,
)
def _(n: Numbers) -> Judged:
    key = "predicted_curves::"
    alike = not n[f"{key}predicted_apart"]
    off = max(abs(n.number(f"{key}level_{metric}_{end}") - 1) for metric in ("ce", "p1") for end in ("min", "max"))
    two = alike, at_most(off, "level")
    return Rule(every(*two), met(1, *two), {"level": within("levels are met within", 0.1, 0.5, 0.01, percent=True)}), (
        f"The formula gives exponents of {n.number(f'{key}alpha_ce.formula'):.3f} (cross-entropy) and "
        f"{n.number(f'{key}alpha_p1.formula'):.3f} (−ln RBP₁), which differ by more than the measured "
        f"{n.number(f'{key}alpha_ce.measured'):.3f} and {n.number(f'{key}alpha_p1.measured'):.3f}"
        f"{', and the other way' if n[f'{key}opposite_sign'] else ''}. Predicted levels are {n.number(f'{key}level_ce_min'):.2f} to "
        f"{n.number(f'{key}level_p1_max'):.2f} times the measured ones: μ and σ were fitted without rank 1."
    )


@claim(
    22,
    LOGNORMAL,
    "earlier version, 5.2 and B.4",
    "μ/σ changes with model size, about linearly in S.",
    rule="holds if a line in S fits the published μ/σ better than a line in ln S; in part if one of them reaches R² 0.9",
    evidence="appendix_c",
    group=EARLIER,
)
def _(n: Numbers) -> Judged:
    in_s, in_log = (n.number(f"appendix_c::ratio_r_squared.{x}") for x in ("S", "lnS"))
    rule = Rule(in_s > in_log, at_least(max(in_s, in_log), "line"), {"line": r_squared("R² of a line, in part", 0.9)})
    return rule, (
        f"It changes, but as ln S: R² is {in_log:.3f} for a line in ln S and {in_s:.2f} for one in S. How steeply depends on the version "
        f"of the lognormal that is fitted: it falls by {-n.number('rank_distributions::ratio_slope.lognormal'):.2f} per unit of ln S for the "
        f"discrete one, and by {-n.number('rank_distributions::ratio_slope.lognormal_rounded'):.2f} for the authors'."
    )


@claim(
    23,
    LOGNORMAL,
    "appendix C",
    "Each of the equations 10 to 21 of appendix C follows.",
    rule="holds if algebra derives each, equation 20 is good to 5%, and what 17 calls cross-entropy is it within 1%; in part if the last fails",
    evidence="appendix_c#verdicts",
)
def _(n: Numbers) -> Judged:
    derived = sum(n.word(f"appendix_c::verdict.{number}") == FOLLOWS for number in _EXACT)
    off = n.number("appendix_c::c_error_worst")
    share = n.number("premise::gap_share.last")
    algebra = every(derived == len(_EXACT), at_most(off, "approximation"))
    rule = Rule(
        every(algebra, at_most(abs(share), "entropy")),
        algebra,
        {
            "approximation": within("equation 20 is good to", 0.05, 0.2, 0.01, percent=True),
            "entropy": within("the two entropies differ by, to hold: at most", 0.01, 0.5, 0.001, percent=True),
        },
    )
    return rule, (
        f"Computer algebra derives {derived} of the {len(_EXACT)} exact statements; equation 20, an approximation, is within {off:.1%} at the "
        f"authors' points. But equation 17 calls the entropy of ranks the cross-entropy; measured, it is {share:.0%} larger at the largest model."
    )


@claim(
    24,
    LOGNORMAL,
    "appendix C, equations 22 to 24",
    "c(μ, σ) = o(φ(μ/σ)).",
    rule="holds if the limit follows from what the text states; in part if it needs a condition that the text does not state",
    evidence="appendix_c",
)
def _(n: Numbers) -> Judged:
    found = n.word("appendix_c::verdict.24")
    return Rule(found == FOLLOWS, found == CONDITION), (
        "It holds if μ/σ → −∞ and σ → ∞ both. With σ fixed it fails: c/φ(μ/σ) tends to 1/σ. At the authors' ten points the ratio goes from "
        f"{n.number('appendix_c::c_over_phi_max'):.2f} to {n.number('appendix_c::c_over_phi_min'):.2f}."
    )


def _dominates(n: Numbers, number: str) -> bool:
    return n.word(f"appendix_c::verdict.{number}") == FOLLOWS


@claim(
    25,
    LOGNORMAL,
    "appendix C, after equation 25",
    "ln c becomes the dominant part of the cross-entropy and of −ln p₁; the fraction of equation 26 is negligible.",
    rule="holds if the ratio of the sum to ln c tends to 1, and the fraction as printed is below 10% of equation 21 at the authors' points",
    evidence="appendix_c#terms",
)
def _(n: Numbers) -> Judged:
    low, high = (n.number(f"appendix_c::fraction26_share_{end}") for end in ("min", "max"))
    rule = Rule(
        every(_dominates(n, "after 26"), below(high, "fraction")),
        bars={"fraction": within("the fraction of equation 21, less than", 0.1, 1, 0.01, percent=True)},
    )
    return rule, (
        f"ln c is cancelled by the other two terms; ln Z is left. At the largest model −ln p₁ is {n.number('appendix_c::neg_log_p1.pythia-12b'):.2f} "
        f"and ln c −{-n.number('appendix_c::log_c.pythia-12b'):.2f}: were it dominant, p₁ would exceed 1. The fraction, as printed, is {low:.0%} to "
        f"{high:.0%} of equation 21; by exact sums, CE + ln p₁ is {n.number('appendix_c::excess_share_min'):.0%} to "
        f"{n.number('appendix_c::excess_share_max'):.0%} of the entropy."
    )


@claim(
    26,
    LOGNORMAL,
    "earlier version, B.4",
    "μ²/(2σ²) is the dominant term of the cross-entropy and of −ln p₁.",
    rule="holds if the ratio of the sum to it tends to 1 along the paths examined",
    evidence="appendix_c",
    group=EARLIER,
)
def _(n: Numbers) -> Judged:
    return Rule(_dominates(n, "earlier, B.4")), (
        f"It is cancelled by ln c. It also rises with size, from {n.number('appendix_c::square_min'):.4f} to "
        f"{n.number('appendix_c::square_last'):.2f}, while both metrics fall."
    )
