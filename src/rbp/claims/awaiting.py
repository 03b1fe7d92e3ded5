"""Claims on lognormal ranks: chapters to come will judge them."""

from rbp.claims.ledger import OPEN, Judge, Numbers, claim

LOGNORMAL = "Lognormal ranks"


def _awaits(what: str) -> Judge:
    def judge(_: Numbers) -> tuple[str, str]:
        return OPEN, what

    return judge


claim(
    20,
    LOGNORMAL,
    "5.2, figure 8c",
    "The distribution of ranks has a long tail, and a lognormal fits it well.",
    rule="holds if no other standard family of as few parameters lies clearly closer to the measured ranks",
)(_awaits("Binned ranks of four Pythia models were published, from rank 2 up."))

claim(
    21,
    LOGNORMAL,
    "5.2, figure 8b",
    "From μ and σ, the formula predicts both curves, with nearly identical power-law decay.",
    rule="holds if predicted and measured levels and exponents agree within their intervals",
)(_awaits("The authors' μ, σ and predicted curves were published for ten Pythia models."))

claim(
    22,
    LOGNORMAL,
    "earlier version, 5.2 and B.4",
    "μ/σ changes with model size, about linearly in S.",
    rule="holds if a line in S fits the published μ/σ better than other simple curves",
)(_awaits("The authors' μ and σ were published for ten Pythia models."))

claim(
    23,
    LOGNORMAL,
    "appendix C",
    "Each of the equations 10 to 21 of appendix C follows.",
    rule="holds if each is derived by computer algebra",
)(_awaits("To be derived line by line."))

claim(
    24,
    LOGNORMAL,
    "appendix C, equations 22 to 24",
    "c(μ, σ) = o(φ(μ/σ)).",
    rule="holds if the limit is 0 along a path of μ and σ that the text states",
)(_awaits("The limit depends on which of μ and σ moves, and how: to be worked out."))

claim(
    25,
    LOGNORMAL,
    "appendix C, after equation 25",
    "ln c becomes the dominant part of the cross-entropy and of −ln p₁; the fraction of equation 26 is negligible.",
    rule="holds if the terms' sizes at the published μ and σ show it",
)(_awaits("To be computed in high precision at the authors' ten points, and as limits."))

claim(
    26,
    LOGNORMAL,
    "earlier version, B.4",
    "μ²/(2σ²) is the dominant term of both.",
    rule="holds if the terms' sizes at the published μ and σ show it",
)(_awaits("To be computed beside claim 25."))
