"""Claims on success over N tokens in a row, and on noise at large k."""

from rbp.paper.claims.ledger import OWN, Judged, Numbers, claim
from rbp.paper.claims.rules import Rule, above, at_least, by_share, every, met, share

EMERGENCE = "Emergence"


@claim(
    12,
    "Large k",
    "4.3, as a conjecture",
    "The law may break at large k because of random noise, once k nearly covers the vocabulary.",
    rule="holds if, at k of 10 000 and more, the interval of the scatter beyond counting noise lies below that noise in nine of ten "
    "fits, and no rise of −ln RBP_k with size is beyond chance; in part if no rise is, or if noise makes at least half of the "
    "squared scatter, by its estimate, in half of the fits; all for independent tokens and for tokens that cluster in documents",
    evidence="noise",
)
def _(n: Numbers) -> Judged:
    key = "noise::"
    tests, enough, beyond, mostly = (n.count(f"{key}large_{each}") for each in ("tests", "enough", "beyond", "mostly"))
    rising, surely = n.count(f"{key}rising"), n.count(f"{key}rising_beyond")
    rule = Rule(
        every(at_least(enough / tests, "shown"), surely == 0),
        met(1, surely == 0, at_least(mostly / tests, "mostly")),
        {
            "shown": share("fits in which noise is shown to be most, to hold", 0.9),
            "mostly": share("fits in which it is, by its estimate, in part", 0.5),
        },
    )
    return rule, (
        f"Of {tests} fits, {beyond} scatter by more than counting noise, whether or not tokens cluster; in {enough} noise is shown to be "
        f"most of it; in {tests - beyond - enough} so few models tell neither. By the estimates, noise is at least half of it in {mostly}. "
        f"Misses rise with size in {rising} cases, in {surely} by more than chance, whatever misses the models share: GPT-2's on Wikipedia "
        f"at k = 10 000 from {n.count(f'{key}rise_from')} to {n.count(f'{key}rise_to')}, at least {n.number(f'{key}rise_z'):.1f} standard "
        f"deviations. Clustering would have to multiply the variance by {n.number(f'{key}effect_least'):.1f}; on our ladder it does so "
        f"by {n.number(f'{key}rise_effect'):.1f} (up to {n.number(f'{key}rise_effect_high'):.1f}). Noisy texts, which the paper may mean "
        "too, were not published."
    )


@claim(
    14,
    EMERGENCE,
    "5.1, equation 6",
    "If places are independent and alike, N tokens in a row are all in the top k with probability RBP_k^N.",
    rule="holds if algebra derives the power from the condition; whether the condition is met is claim 42",
    evidence="emergence#sharpness",
)
def _(n: Numbers) -> Judged:
    follows = n.word("emergence::follows.equation_6") == "yes"
    return Rule(follows), (
        "The chance that independent events all happen is the product of their chances, and these are equal. Text does not meet the "
        "condition (claim 42)."
    )


@claim(
    42,
    EMERGENCE,
    "5.1; our test",
    "Places are independent and alike, as equation 6 assumes: windows succeed with probability RBP_k^N.",
    rule="holds if the measured success of windows equals that power, within its interval, in nine of ten cases; in part if in half",
    evidence="independence#ratio",
    group=OWN,
    core=True,
)
def _(n: Numbers) -> Judged:
    below, cells, zeros = (n.count(f"independence::{key}") for key in ("cells_below", "cells", "cells_zero"))
    above = n.count("independence::cells_above")
    return by_share((cells - below - above) / cells, "cases within their interval", holds=0.9), (
        f"Windows succeed more often in {below} of {cells} "
        f"cases, by more than their interval ({zeros} have no success to compare). −ln p of 10 tokens at k = 1 is "
        f"{n.number('independence::ratio.Pythia.k1.n10'):.2f} of what it would be, for Pythia; 100 tokens at k = 10 count as "
        f"{n.number('independence::effective.Pythia.k10.n100'):.0f} independent ones."
    )


@claim(
    15,
    EMERGENCE,
    "5.1, equation 7, figure 7",
    "−ln p(N, k) is proportional to N·S^(−α), linear in N; figure 7 confirms it.",
    rule="holds if, with −ln p proportional to a power of N, the interval of that power contains 1 at every k; in part if at half of them",
    evidence="emergence#length-exponent",
    core=True,
)
def _(n: Numbers) -> Judged:
    below, fits = n.count("emergence::length_below_one.Pythia"), n.count("emergence::length_fits.Pythia")
    return by_share((fits - below) / fits, "thresholds at which the interval contains 1"), (
        f"The power is {n.number('emergence::length.Pythia.k1'):.2f} at k = 1 and "
        f"{n.number('emergence::length.Pythia.k10000'):.2f} at k = 10 000; its interval lies below 1 at {below} of {fits} "
        f"thresholds. Figure 7 does not test it: {n.count('emergence::recipe_agree')} of its "
        f"{n.count('emergence::recipe_numbers')} printed numbers are means over separate lines, one for each N, with p = 0 "
        f"replaced by {n.word('emergence::recipe_zero')}."
    )


@claim(
    16,
    EMERGENCE,
    "5.1, equation 8",
    "The curves of success against size are sigmoidal, and a larger N sharpens the transition.",
    rule="holds if algebra gives equation 8, p against ln S, one turn between 0 and 1, and a steeper one for a larger N, or if the rise is "
    "measured to be steeper than for one token in most tests; in part if only the first",
    evidence="emergence#sharpness",
)
def _(n: Numbers) -> Judged:
    sigmoid, steeper = (n.word(f"emergence::follows.{key}") == "yes" for key in ("sigmoid", "sharper"))
    visible, turns, curves = (n.count(f"emergence::{key}") for key in ("visible", "turns", "curves"))
    sharper, duller, tests = (n.count(f"emergence::{key}") for key in ("sharper", "duller", "slopes"))
    rule = Rule(
        every(sigmoid, met(1, steeper, above(sharper / tests, "sharper"))),
        sigmoid,
        {"sharper": share("tests in which the rise is steeper, to hold: more than", 0.5)},
    )
    return rule, (
        f"Sigmoidal, yes: of {curves} measured curves, pieces of a whole one, {turns} pass its turn at 1/e, and {visible} go from below "
        "0.1 to above 0.9. Sharper, no: a larger N moves the curve of equation 8 along ln S and leaves its shape, whose steepest rise "
        f"is α/e for every N. Measured, it is steeper than that of single tokens in {sharper} of {tests} cases, and flatter in {duller}. "
        "What grows with N is the relative gain, d ln p/d ln S."
    )


@claim(
    17,
    EMERGENCE,
    "5.1",
    "Emergence is a predictable effect of the smooth law for single tokens.",
    rule="holds if the law for single tokens predicts the measured success of windows within its interval in nine of ten cases; "
    "in part if success rises smoothly all the same, in four of five steps of size",
    evidence="emergence#joint-fits",
    core=True,
)
def _(n: Numbers) -> Judged:
    inside, cells = n.count("emergence::predictions_inside"), n.count("emergence::predictions")
    rises, steps = n.count("emergence::rises"), n.count("emergence::rise_steps")
    rule = Rule(
        at_least(inside / cells, "inside"),
        at_least(rises / steps, "rises"),
        {
            "inside": share("predictions within the interval, to hold", 0.9),
            "rises": share("steps in which success rises, in part", 0.8),
        },
    )
    return rule, (
        f"Smooth, yes: success rises in {rises} of {steps} steps to the next larger model, with no jump to explain. Predictable "
        f"from single tokens, no: {inside} of {cells} predictions lie within the interval, and at k = 1 and N = 100 the largest "
        f"model is off by a factor of 10^({n.number('emergence::gain_largest.k1.n100'):.0f}). A beta-binomial law fitted to windows of up "
        f"to 10 tokens comes within a factor {n.number('independence::worst.beta-binomial.small'):.1f} of −ln p there, for k "
        "up to 100."
    )
