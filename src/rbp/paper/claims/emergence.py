"""The claim on what an account by cross-entropy covers."""

from rbp.paper.claims.comparisons import seldom_told, told_by_cross_entropy
from rbp.paper.claims.ledger import OPEN, Judged, Numbers, claim

EMERGENCE = "Emergence"


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
