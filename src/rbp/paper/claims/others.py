"""Claims of others on ranks.

Those of "What Scales in Cross-Entropy Scaling Law?" (arXiv:2510.04067) are tested by the ladder's ranks. Their rules were written down before the terms were fitted; the first look that preceded them had shown error-entropy's
share of cross-entropy on three texts, and nothing of how the terms scale.
"""

from rbp.paper.claims.ledger import OTHERS, Judged, Numbers, claim
from rbp.paper.claims.rules import Condition, Rule, at_least, every, met, share

SISTER = "What scales in cross-entropy"
SHARES = "sister"
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
