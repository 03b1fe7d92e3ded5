"""What we predicted of our own ladders, before they were trained (data/predictions/ladders.toml; chapter 9)."""

from rbp.paper.claims.ledger import PREDICTIONS, UNCHECKED, Judged, Numbers, claim
from rbp.paper.claims.rules import by_share

CHAPTER = "predictions"
PLACE = "data/predictions/ladders.toml"
INTERVALS = "holds if four of five of its intervals hold, as their probability says; in part if half of them do"


def _held(n: Numbers, *kinds: str) -> Judged:
    """Judged by the share of intervals of these kinds that hold, of those that could be tested."""
    inside, tested, better = (
        sum(n.count(f"{CHAPTER}::kind.{kind}.{what}") for kind in kinds) for what in ("inside", "tested", "better")
    )
    return by_share(inside / tested, "intervals that hold", holds=0.8), (
        f"{inside} of {tested} intervals hold that can be tested, and {better} of these predictions beat the naive guess."
    )


def _predicted(number: int, part: str, says: str, *kinds: str, core: bool = False) -> None:
    """Enter a claim that is judged by its intervals."""
    enter = claim(number, part, PLACE, says, rule=INTERVALS, evidence=f"{CHAPTER}#tested", group=PREDICTIONS, core=core)
    enter(lambda n: _held(n, *kinds))


_predicted(
    59,
    "Sizes",
    "At 8 million tokens, our transformer's exponents in S lie near 0.06 to 0.10 at k = 1 and 0.06 to 0.13 at k = 10, and an "
    "LSTM's within 0.01 of them.",
    "exponent",
    "exponent_difference",
    core=True,
)
_predicted(
    60,
    "Sizes",
    "With heads of one size, the first ladder's zigzag is gone, and the law is straight: its quadratic term is near 0.",
    "zigzag",
    "curvature",
)
_predicted(
    61,
    "Training",
    "The exponent in S grows with training, from 0.02 after half a million tokens to three times that after 8 million.",
    "budgets",
)
_predicted(
    62,
    "Cross-entropy",
    "At equal cross-entropy an LSTM's −ln RBP_1 lies within 0.1 of a transformer's; −ln RBP_1 goes as a power of cross-entropy "
    "that is a text's own, 1.6 to 2.6.",
    "offset",
    "slope_in_cross_entropy",
    "cross_entropy",
    "cross_entropy_difference",
)
_predicted(
    63,
    "Cross-entropy",
    "Error-entropy is 1.02 to 1.04 of cross-entropy, and self-alignment below 0.011 of it, in every family.",
    "sister_law",
)
_predicted(
    65,
    "Sizes",
    "Other first weights or another order of the text move −ln RBP_1 of small models by about 1%, and by 3% on HotpotQA.",
    "seeds",
)
_predicted(
    66,
    "Sizes",
    "Other heads alone move the first ladder's −ln RBP_10 on Australian judgments: smaller ones raise that of 150k by 1% to "
    "12%, and one large head moves that of 59k by −12% to +2%.",
    "ablation",
)


@claim(
    64,
    "Not tested",
    PLACE,
    "Mamba-2 has the largest exponents of three families.",
    rule="would be decided by models that are not trained",
    evidence=f"{CHAPTER}#untested",
    group=PREDICTIONS,
)
def _(n: Numbers) -> Judged:
    waiting = n.count(f"{CHAPTER}::untested")
    return UNCHECKED, f"{waiting} predictions wait for Mamba-2. Chapter 9 has the commands."
