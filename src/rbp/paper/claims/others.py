"""Claims of others on ranks and on training, and our own test of what an exponent is.

Those of "What Scales in Cross-Entropy Scaling Law?" (arXiv:2510.04067) are tested by the ladder's ranks. Their rules were written down before the terms were fitted; the first look that preceded them had shown error-entropy's
share of cross-entropy on three texts, and nothing of how the terms scale.
"""

from rbp.paper.claims.ledger import OTHERS, OWN, UNCHECKED, Judged, Numbers, claim
from rbp.paper.claims.rules import Condition, Rule, at_least, every, met, share

SISTER = "What scales in cross-entropy"
SHARES = "sister"
TRAINING = "Size and training"
EXPONENT = "exponent"
TEXTS = {"texts": share("texts on which each part is so", 1)}


def _on_texts(so: int, texts: int) -> Condition:
    return at_least(so / texts, "texts")


@claim(
    53,
    SISTER,
    "arXiv:2510.04067, read at second hand",
    "Error-entropy follows a power law in S, and more closely than cross-entropy does.",
    rule="holds if R² of error-entropy is at least 0.97, and above that of cross-entropy, on every text of the ladder; in part if only the first",
    evidence=f"{SHARES}#fits",
    group=OTHERS,
    core=True,
)
def _(n: Numbers) -> Judged:
    texts, high, closer = (n.count(f"{SHARES}::{key}") for key in ("texts", "entropy_high", "entropy_closer"))
    follows = _on_texts(high, texts)
    return Rule(every(follows, _on_texts(closer, texts)), follows, TEXTS), (
        f"R² of error-entropy is at least 0.97 on {high} of {texts} texts ({n.number(f'{SHARES}::r_squared_min'):.3f} at "
        f"least), and above that of cross-entropy on {closer}."
    )


@claim(
    54,
    SISTER,
    "arXiv:2510.04067, read at second hand",
    "Self-alignment and confidence hardly change with size.",
    rule="holds if, on every text of the ladder, neither changes from the smallest rung to the largest by more than a tenth of what "
    "cross-entropy does; in part if one of them never does",
    evidence=f"{SHARES}#changes",
    group=OTHERS,
)
def _(n: Numbers) -> Judged:
    texts, alignment, confidence = (
        n.count(f"{SHARES}::{key}") for key in ("texts", "alignment_still", "confidence_still")
    )
    two = _on_texts(alignment, texts), _on_texts(confidence, texts)
    return Rule(every(*two), met(1, *two), TEXTS), (
        f"Self-alignment changes by no more than a tenth of the fall of cross-entropy on {alignment} of {texts} texts, "
        f"confidence on {confidence}. Confidence makes {n.number(f'{SHARES}::confidence_min'):.0f} to "
        f"{n.number(f'{SHARES}::confidence_max'):.0f}% of that fall all the same, as it moves one way."
    )


@claim(
    55,
    SISTER,
    "arXiv:2510.04067, read at second hand",
    "Error-entropy is 80 to 90% of cross-entropy in small models, and a smaller share in larger ones.",
    rule="holds if its share lies between 0.8 and 0.9 at the smallest rung and falls to the largest, on every text of the ladder; in part "
    "if one of the two, on every text",
    evidence=f"{SHARES}#shares",
    group=OTHERS,
)
def _(n: Numbers) -> Judged:
    texts, inside, falls = (n.count(f"{SHARES}::{key}") for key in ("texts", "share_inside", "share_falls"))
    two = _on_texts(inside, texts), _on_texts(falls, texts)
    first, last = (100 * (1 + n.number(f"lognormal::gap_share.{end}")) for end in ("first", "last"))
    return Rule(every(*two), met(1, *two), TEXTS), (
        f"On the ladder it is {100 * n.number(f'{SHARES}::share_min'):.0f} to {100 * n.number(f'{SHARES}::share_max'):.0f}% of "
        f"cross-entropy, as confidence is negative. From the smallest rung to the largest the share falls on {falls} of "
        f"{texts} texts. For Pythia on Wikipedia it is {first:.0f}% at the smallest model and {last:.0f}% at the largest."
    )


@claim(
    56,
    TRAINING,
    "Hoffmann et al., arXiv:2203.15556, equation 2",
    "Size and training tokens act on the loss as a sum: E + A/S^a + B/D^b.",
    rule="holds if the sum foretells sweeps that it was not fitted to better than a product of powers, for the loss and for "
    "−ln RBP_1 of the Llama runs of xLSTM Scaling Laws; in part if for one of the two",
    evidence="exponent#forms",
    group=OTHERS,
    core=True,
)
def _(n: Numbers) -> Judged:
    missed = {
        (measure, form): n.number(f"{EXPONENT}::missed.llama.{measure}.{form}")
        for measure in ("loss", "rank")
        for form in ("additive", "product")
    }
    better = sum(missed[measure, "additive"] < missed[measure, "product"] for measure in ("loss", "rank"))
    return Rule(better == 2, better == 1), (
        f"Of the loss in sweeps left out, the sum misses {missed['loss', 'additive']:.0f} per cent of the variation, the product "
        f"{missed['loss', 'product']:.0f}; of −ln RBP_1, {missed['rank', 'additive']:.0f} and {missed['rank', 'product']:.0f}. "
        f"So what was found for the loss holds for ranks too. The exponents a differ by "
        f"{n.number(f'{EXPONENT}::value.difference.alpha'):.3f} (interval {n.number(f'{EXPONENT}::low.difference.alpha'):.3f} to "
        f"{n.number(f'{EXPONENT}::high.difference.alpha'):.3f})."
    )


@claim(
    57,
    TRAINING,
    "arXiv:2509.24012 (known to us at second hand)",
    "As k grows, −ln pass@k falls ever more steeply with compute: the exponent goes from 0.12 to 0.38.",
    rule="would be decided by their runs, which are not at hand; beside it stands what k tries do on single tokens of our ladder",
    evidence="exponent#lists-and-tries",
    group=OTHERS,
)
def _(n: Numbers) -> Judged:
    return UNCHECKED, (
        f"Theirs are tasks, and fits with an irreducible term. For k tries on a next token of our ladder, computed exactly, the "
        f"exponent in size is higher at k = {n.count(f'{EXPONENT}::k.fitted')} than at 1 on {n.count(f'{EXPONENT}::tries.rise')} of "
        f"{n.count(f'{EXPONENT}::texts')} texts, and at k = {n.count(f'{EXPONENT}::k.last')} it is below that of one try on "
        f"{n.count(f'{EXPONENT}::tries.lower')}. Of lists of k, RBP_k, it has grown on {n.count(f'{EXPONENT}::list.higher')}."
    )


@claim(
    58,
    TRAINING,
    "asked of the law of section 4",
    "The exponent in size is the same however long the models of a family were trained.",
    rule="holds if the interval of the change of Pythia’s exponent on LAMBADA, each model compared with itself between two "
    "snapshots, contains 0",
    evidence="exponent#over-training",
    group=OWN,
    core=True,
)
def _(n: Numbers) -> Judged:
    low, high = (n.number(f"{EXPONENT}::change_{end}") for end in ("low", "high"))
    return Rule(low <= 0 <= high), (
        f"From step {n.count(f'{EXPONENT}::step.early')} to {n.count(f'{EXPONENT}::step.late')} it grows from "
        f"{n.number(f'{EXPONENT}::alpha.early'):.3f} to {n.number(f'{EXPONENT}::alpha.late'):.3f}; the change lies between {low:.3f} and "
        f"{high:.3f}. These are snapshots of one schedule, and −ln accuracy on whole words, not RBP_1. On others’ runs over sizes "
        f"and tokens, the exponent of −ln RBP_1 in size is {n.number(f'{EXPONENT}::llama.rank.at_d'):.3f} at fixed tokens and "
        f"{n.number(f'{EXPONENT}::llama.rank.at_ratio'):.3f} at constant tokens per parameter."
    )
