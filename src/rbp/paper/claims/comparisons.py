"""Claims on cross-entropy beside RBP₁, on k beside S, on the metric's definition, and on Table 1."""

from rbp.paper.claims.ledger import EARLIER, OPEN, UNCHECKED, Judged, Numbers, claim
from rbp.paper.claims.rules import Rule, at_least, at_most, below, every, share

TWO_METRICS, MORE_K, DEFINITION = "Cross-entropy and RBP₁", "More k", "Definition and table"


@claim(
    18,
    TWO_METRICS,
    "5.2, figure 8a, Table 1",
    "The exponents of cross-entropy and of −ln RBP₁ are nearly identical.",
    rule="near: by two one-sided tests at 5% over the scatter of models, and of documents where ranks are kept, α of cross-entropy lies within ±10% of α of −ln RBP₁. Holds if every tested pair of family and text is near, ours included; in part if in at least half the cells of Table 1 the printed exponents lie so, and no tested cell of it is shown to lie outside",
    evidence="cross_entropy#near-tests",
    core=True,
)
def _(n: Numbers) -> Judged:
    cells, within = n.count("cross_entropy::printed_cells"), n.count("cross_entropy::printed_within_tenth")
    tested, near, outside = (n.count(f"cross_entropy::{key}") for key in ("tested", "near", "outside"))
    of_table_1 = n.count("cross_entropy::outside_table_1")
    least, most = (n.count(f"cross_entropy::printed_tenth_{end}") for end in ("least", "most"))
    rule = Rule(
        at_least(near / tested, "near"),
        every(at_least(within / cells, "cells"), of_table_1 == 0),
        {
            "near": share("tested pairs shown to be near, to hold", 1),
            "cells": share("cells of Table 1 within 10%, in part", 0.5),
        },
    )
    pythia, low, high, ladder = (
        f"{n.number(f'cross_entropy::{key}'):+.1f}".replace("-", "−")
        for key in (*(f"relative{end}.wikipedia.Pythia" for end in ("", "_low", "_high")), "relative.wikipedia.neox")
    )
    return rule, (
        f"Of {tested} pairs of family and text with both metrics model by model, {near} are shown to be near, and {outside} "
        f"to lie outside, {of_table_1} of them in Table 1. On Wikipedia, cross-entropy's exponent differs by {pythia}% for "
        f"Pythia, with the 90% interval {low} to {high}%, and by {ladder}% for the ladder. The printed exponents lie within "
        f"10% in {within} of {cells} cells; by what rounding hides, in {least} to {most}."
    )


def told_by_cross_entropy(n: Numbers) -> tuple[int, int] | None:
    """In how many cells cross-entropy tells −ln RBP₁ more closely than S does, and of how many; None: not recorded."""
    found = {key.partition("::")[2]: n.count(key) for key in n if "::told_by_cross_entropy." in key}
    return (found["told_by_cross_entropy.closer"], found["told_by_cross_entropy.cells"]) if found else None


def seldom_told(closer: int, cells: int) -> Rule:
    """Cross-entropy is to tell −ln RBP₁ more closely in few cells."""
    bars = {
        "holds": share("cells told more closely by cross-entropy, to hold: less than", 0.5, harder=-1),
        "part": share("cells told more closely by cross-entropy, in part: less than", 0.9, harder=-1),
    }
    return Rule(below(closer / cells, "holds"), below(closer / cells, "part"), bars)


@claim(
    33,
    TWO_METRICS,
    "3.2, 4.1, 4.2",
    "The law of RBP_k cannot be deduced from that of cross-entropy.",
    rule="holds if, in most cells of family and dataset, a curve in cross-entropy tells −ln RBP₁ of the models less closely than the law "
    "in S does; fails if it tells it more closely in nine of ten; in part between",
    evidence="rank_and_cross_entropy",
    core=True,
)
def _(n: Numbers) -> Judged:
    told = told_by_cross_entropy(n)
    if told is None:
        return (
            OPEN,
            "Logic does not deduce it (claim 19). Whether measurements do is left to a chapter on rank and cross-entropy.",
        )
    closer, cells = told
    return seldom_told(closer, cells), (
        f"In {closer} of {cells} cells, a curve in cross-entropy tells −ln RBP₁ more closely than the law in S does."
    )


@claim(
    27,
    MORE_K,
    "preprint of 3 October 2025, appendix B",
    "−ln RBP_k is a power law in k for k up to 100, with all R² at least 0.99.",
    rule="holds if R² is at least 0.99 in all fits, and in nine of ten the points leave their line by no more than counting noise; in part if "
    "only R² is",
    evidence="in_k",
    group=EARLIER,
    core=True,
)
def _(n: Numbers) -> Judged:
    pairs, high = n.count("in_k::pairs"), n.count("in_k::r_squared_high")
    tested, bent = n.count("in_k::noise_tested"), n.count("in_k::noise_rejected")
    straight = at_least(high / pairs, "pairs")
    rule = Rule(
        every(straight, at_least((tested - bent) / tested, "noise")),
        straight,
        {"pairs": share("pairs with R² of 0.99", 1), "noise": share("curves within counting noise, to hold", 0.9)},
    )
    return rule, (
        f"R² is at least 0.99 in {high} of {pairs} pairs of model and dataset ({n.number('in_k::r_squared_min'):.4f} at least). "
        f"But of {tested} curves whose counting noise is known, {bent} leave the line by more than that noise allows; the "
        f"bend is {n.number('in_k::bend_median'):.0f}% at the median. It is a good summary rather than a law."
    )


@claim(
    28,
    MORE_K,
    "preprint of 3 October 2025, appendix B",
    "The exponent in k is larger than that in S, so raising k is the faster way to raise RBP_k.",
    rule="holds if α in k exceeds α in S in every comparison, at k = 1, 10 and 100, and if both are constants, as the “so” takes them to be: "
    "α in S does not rise with k, nor α in k with S, in most cells; in part if only the first",
    evidence="in_k#exponents",
    group=EARLIER,
)
def _(n: Numbers) -> Judged:
    compared, larger = n.count("in_k::compared"), n.count("in_k::larger")
    cells, drifts = n.count("in_k::cells"), [n.count(f"in_k::{key}") for key in ("s_rises", "rising_cells")]
    ahead = at_least(larger / compared, "larger")
    rule = Rule(
        every(ahead, at_most(max(drifts) / cells, "drifts")),
        ahead,
        {
            "larger": share("comparisons in which α in k is larger", 1),
            "drifts": share("cells in which either exponent drifts, to hold: at most", 0.5, harder=-1),
        },
    )
    return rule, (
        f"Larger in {larger} of {compared} comparisons, by a factor of {n.number('in_k::times_min'):.1f} to "
        f"{n.number('in_k::times_max'):.1f}. But α in S rises with k in {drifts[0]} of {cells} cells, and α in k with S in {drifts[1]}: "
        "there is no one rate to compare, and the lead shrinks as k grows. A larger k also makes the task easier, not the model better."
    )


@claim(
    29,
    MORE_K,
    "preprint of 3 October 2025, appendix B",
    "ΔS/S ≈ −(α_k/α_S)·Δk/k keeps RBP_k constant.",
    rule="holds if the sign follows and the formula is usable for one step of k at k = 1; in part if only the sign follows",
    evidence="in_k",
    group=EARLIER,
)
def _(n: Numbers) -> Judged:
    impossible, cases = n.count("in_k::local_impossible"), n.count("in_k::exchanged")
    rule = Rule(
        at_least((cases - impossible) / cases, "usable"),
        True,
        {"usable": share("cases in which the formula is usable, to hold", 1)},
    )
    return rule, (
        f"The sign is right: more k allows a smaller S. But the formula is for small steps. From k = 1 to 2 it asks for a "
        f"negative size in {impossible} of {cases} cases; a step of one is small enough only from k = "
        f"{n.count('in_k::usable_from_min')} to {n.count('in_k::usable_from_max')} on, depending on the model."
    )


@claim(
    30,
    DEFINITION,
    "equation 3, and the authors' program",
    "Equation 3 counts ties against the token; the program counts higher scores plus one, and takes RBP_k from membership in a top-k list.",
    rule="would be decided by the number of ties in the authors' scores, which was not published",
    evidence="ranking",
)
def _(n: Numbers) -> Judged:
    tied, rounded = (100 * n.number(f"ranking::tied.{logits}") for logits in ("all", "bfloat16"))
    gaps = [n.number(f"ranking::rule_gap.{logits}") for logits in ("all", "bfloat16")]
    return UNCHECKED, (
        f"The rules differ only where scores tie. In our own very small model, {tied:.3f}% of tokens tie in float32, and RBP₁ by "
        f"the rules differs by {gaps[0]:.2f} percentage points; with logits rounded to bfloat16, {rounded:.0f}% tie, and it differs by "
        f"{gaps[1]:.2f}. The authors' models ran in float32, so ties should matter little there."
    )
