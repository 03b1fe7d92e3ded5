"""Claims on emergence: chapters to come will judge them."""

from rbp.claims.ledger import OPEN, Judge, Numbers, claim

EMERGENCE = "Emergence"


def _awaits(what: str) -> Judge:
    def judge(_: Numbers) -> tuple[str, str]:
        return OPEN, what

    return judge


claim(
    12,
    "Large k",
    "4.3, as a conjecture",
    "The law may break at large k because of random noise, once k nearly covers the vocabulary.",
    rule="holds if the scatter about the lines is what counting noise at the number of ranked tokens gives",
)(
    _awaits(
        "To be decided by exact counts and by resampling documents. The published counts of GPT-2 on Wikipedia, "
        "all on the same tokens, allow a first test."
    )
)

claim(
    14,
    EMERGENCE,
    "5.1, equation 6",
    "If places are independent and alike, N tokens in a row are all in the top k with probability RBP_k^N.",
    rule="holds if the measured success of windows equals that power, within its interval",
)(_awaits("The published window successes of Pythia and GPT-2 allow a test of independence."))

claim(
    15,
    EMERGENCE,
    "5.1, equation 7, figure 7",
    "−ln p(N, k) is proportional to N·S^(−α), linear in N; figure 7 confirms it.",
    rule="holds if −ln p(N, k) grows in proportion to N at fixed S and k",
)(_awaits("The published window successes, nine values of N for ten Pythia models, allow a test."))

claim(
    16,
    EMERGENCE,
    "5.1, equation 8",
    "The curves of success against size are sigmoidal, and a larger N sharpens the transition.",
    rule="holds if the measured curves show both",
)(_awaits("The same measurements decide it."))

claim(
    17,
    EMERGENCE,
    "5.1",
    "Emergence is a predictable effect of the smooth law for single tokens.",
    rule="holds if the law for single tokens predicts the measured success of windows",
)(_awaits("It needs the tests of claims 14 to 16 first."))
