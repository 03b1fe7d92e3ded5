"""Claims on cross-entropy beside RBP₁, on k beside S, on the metric's definition, and on Table 1."""

from rbp.paper.claims.ledger import EARLIER, FAILS, HOLDS, OWN, PART, UNCHECKED, Numbers, claim

TWO_METRICS, MORE_K, DEFINITION = "Cross-entropy and RBP₁", "More k", "Definition and table"


@claim(
    18,
    TWO_METRICS,
    "5.2, figure 8a, Table 1",
    "The exponents of cross-entropy and of −ln RBP₁ are nearly identical.",
    rule="holds if no paired interval of their difference leaves out 0; in part if k = 1 is the closest of all k in most cells",
    evidence="08_cross_entropy",
)
def _(n: Numbers) -> tuple[str, str]:
    cells, closest = n.count("08_cross_entropy::printed_cells"), n.count("08_cross_entropy::closest_1")
    tested, apart = n.count("08_cross_entropy::tested"), n.count("08_cross_entropy::tested_apart")
    verdict = HOLDS if apart == 0 else PART if closest > cells / 2 else FAILS
    low, high = (n.number(f"08_cross_entropy::{end}.wikipedia.Pythia") for end in ("low", "high"))
    return verdict, (
        f"Close, not identical. For Pythia on Wikipedia, cross-entropy's exponent is larger by "
        f"{n.number('08_cross_entropy::difference.wikipedia.Pythia'):.4f}, with the interval {low:.4f} to {high:.4f}; "
        f"of {tested} families that can be tested model by model, {apart} differ. By the printed slopes, the difference is "
        f"{n.number('08_cross_entropy::printed_relative_median'):.0f}% of the exponent at the median of {cells} cells, and k = 1 "
        f"is the closest of the printed k in {closest}."
    )


@claim(
    19,
    TWO_METRICS,
    "introduction, 3.1, figure 1",
    "Cross-entropy does not determine the rank, nor RBP.",
    rule="holds if two models with the same cross-entropy and different RBP₁ exist",
    evidence="01_metric",
)
def _(n: Numbers) -> tuple[str, str]:
    gap = abs(n.number("01_metric::cross_entropy.pair_difference"))
    even, crowded = n.number("01_metric::rbp1.even"), n.number("01_metric::rbp1.crowded")
    return HOLDS if gap < 1e-9 and even != crowded else FAILS, (
        f"Two small models with the same cross-entropy, {n.number('01_metric::cross_entropy.pair'):.3f} nats, have RBP₁ of "
        f"{even:.2f} and {crowded:.2f}. The reverse is true as well: a temperature changes the cross-entropy and no rank."
    )


@claim(
    27,
    MORE_K,
    "preprint of 3 October 2025, appendix B",
    "−ln RBP_k is a power law in k for k up to 100, with all R² at least 0.99.",
    rule="holds if R² is at least 0.99 in all fits and the points leave their lines by no more than counting noise; in part if only R² is",
    evidence="07_more_k",
    group=EARLIER,
)
def _(n: Numbers) -> tuple[str, str]:
    pairs, high = n.count("07_more_k::pairs"), n.count("07_more_k::r_squared_high")
    tested, bent = n.count("07_more_k::noise_tested"), n.count("07_more_k::noise_rejected")
    verdict = FAILS if high < pairs else HOLDS if bent <= 0.1 * tested else PART
    return verdict, (
        f"R² is at least 0.99 in {high} of {pairs} pairs of model and dataset ({n.number('07_more_k::r_squared_min'):.4f} at least). "
        f"But of {tested} curves whose counting noise is known, {bent} leave the line by more than that noise allows; the "
        f"bend is {n.number('07_more_k::bend_median'):.0f}% at the median. It is a good summary rather than a law."
    )


@claim(
    28,
    MORE_K,
    "preprint of 3 October 2025, appendix B",
    "The exponent in k is larger than that in S, so raising k is the faster way to raise RBP_k.",
    rule="holds if α in k exceeds α in S in every pair, at k = 1, 10 and 100",
    evidence="07_more_k",
    group=EARLIER,
)
def _(n: Numbers) -> tuple[str, str]:
    compared, larger = n.count("07_more_k::compared"), n.count("07_more_k::larger")
    return HOLDS if larger == compared else PART if larger > compared / 2 else FAILS, (
        f"True in {larger} of {compared} comparisons: {n.number('07_more_k::times_min'):.1f} to "
        f"{n.number('07_more_k::times_max'):.1f} times as large. A larger k makes the task easier, though; it does not make the model better."
    )


@claim(
    29,
    MORE_K,
    "preprint of 3 October 2025, appendix B",
    "ΔS/S ≈ −(α_k/α_S)·Δk/k keeps RBP_k constant.",
    rule="holds if the sign follows and the formula is usable for one step of k at k = 1; in part if only the sign follows",
    evidence="07_more_k",
    group=EARLIER,
)
def _(n: Numbers) -> tuple[str, str]:
    impossible, cases = n.count("07_more_k::local_impossible"), n.count("07_more_k::exchanged")
    return HOLDS if impossible == 0 else PART, (
        f"The sign is right: more k allows a smaller S. But the formula is for small steps. From k = 1 to 2 it asks for a "
        f"negative size in {impossible} of {cases} cases; a step of one is small enough only from k = "
        f"{n.count('07_more_k::usable_from_min')} to {n.count('07_more_k::usable_from_max')} on, depending on the model."
    )


@claim(
    30,
    DEFINITION,
    "equation 3, and the authors' program",
    "Equation 3 counts ties against the token; the program counts higher scores plus one, and takes RBP_k from membership in a top-k list.",
    rule="would be decided by the number of ties in the authors' scores, which was not published",
    evidence="12_ranking",
)
def _(n: Numbers) -> tuple[str, str]:
    tied, rounded = (100 * n.number(f"12_ranking::tied.{logits}") for logits in ("all", "bfloat16"))
    gaps = [n.number(f"12_ranking::rule_gap.{logits}") for logits in ("all", "bfloat16")]
    return UNCHECKED, (
        f"The rules differ only where scores tie. In our own very small model, {tied:.3f}% of tokens tie in float32, and RBP₁ by "
        f"the rules differs by {gaps[0]:.2f} percentage points; with logits rounded to bfloat16, {rounded:.0f}% tie, and it differs by "
        f"{gaps[1]:.2f}. The authors' models ran in float32, so ties should matter little there."
    )


@claim(
    32,
    DEFINITION,
    "Table 1; our test",
    "Table 1 follows from the points in the figures by least squares on logarithms.",
    rule="holds if every number that the published points allow rounds to the printed one, for inputs of six decimals",
    evidence="10_table1",
    group=OWN,
)
def _(n: Numbers) -> tuple[str, str]:
    compared, agree, rounded = (n.count(f"10_table1::{key}") for key in ("compared", "agree", "agree.rounded"))
    return HOLDS if rounded == compared else PART if agree >= 0.9 * compared else FAILS, (
        f"{agree} of {compared} numbers agree to all three printed digits. The other one, R² of {n.word('10_table1::differs.cells')}, "
        f"is {n.number('10_table1::count_r_squared'):.5f} from exact counts and {n.number('10_table1::count_r_squared_rounded'):.5f} "
        f"from shares rounded to six decimals; {n.number('10_table1::count_r_squared_printed'):.3f} is printed."
    )
