"""Claims on success over N tokens in a row, and on noise at large k."""

from rbp.paper.claims.comparisons import seldom_told, told_by_cross_entropy
from rbp.paper.claims.ledger import OPEN, Judged, Numbers, claim
from rbp.paper.claims.rules import Rule, at_least, every, met, share

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
    41,
    EMERGENCE,
    "introduction, 5.1",
    "The account of emergence by cross-entropy (Schaeffer et al., 2023) cannot cover greedy decoding or top-k sampling.",
    rule="as claim 33: what tells RBP₁ covers greedy decoding, which is right where the first guess is. Holds if cross-entropy tells −ln RBP₁ "
    "less closely than S does in most cells; fails if more closely in nine of ten; in part between",
    evidence="rank_and_cross_entropy",
    core=True,
)
def _(n: Numbers) -> Judged:
    told = told_by_cross_entropy(n)
    if told is None:
        return OPEN, "As claim 33. By logic alone cross-entropy gives greedy decoding no more than a bound (claim 19)."
    closer, cells = told
    return seldom_told(closer, cells), (
        f"In {closer} of {cells} cells, a curve in cross-entropy tells −ln RBP₁ more closely than the law in S does. So an account by "
        "cross-entropy reaches greedy decoding as far as this one does, within these families."
    )
