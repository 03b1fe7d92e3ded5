"""Claims on k beside S, on the metric's definition, and on Table 1."""

from rbp.paper.claims.ledger import EARLIER, UNCHECKED, Judged, Numbers, claim
from rbp.paper.claims.rules import Rule, at_least, at_most, every, share

MORE_K, DEFINITION = "More k", "Definition and table"


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
