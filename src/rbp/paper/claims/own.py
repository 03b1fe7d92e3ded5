"""Questions that the paper does not ask, as claims with rules: our own tests."""

from rbp.paper.claims.ledger import FAILS, HOLDS, OWN, PART, Numbers, by_exceptions, claim

RANK = "Rank and cross-entropy"
CHAPTER = "20_rank_and_cross_entropy"


@claim(
    46,
    RANK,
    "our test",
    "Models of equal cross-entropy have equal RBP_1, whatever their family, text or seed.",
    rule="holds if no comparison at equal cross-entropy leaves out 0, fails if most do: of two families on a text, of two "
    "texts for a family, of a model trained again; in part between",
    evidence=f"{CHAPTER}#equal",
    group=OWN,
)
def _(n: Numbers) -> tuple[str, str]:
    groups = [n.count(f"{CHAPTER}::{key}") for key in ("apart.k1", "compared.k1")]
    seeds = [n.count(f"{CHAPTER}::{key}") for key in ("seeds.apart.k1", "seeds.pairs.k1")]
    return by_exceptions(groups[0] + seeds[0], groups[1] + seeds[1]), (
        f"{groups[0]} of {groups[1]} families and texts are apart, texts by up to "
        f"{n.number(f'{CHAPTER}::offset_max.texts.k1'):.0f}%, and so are {seeds[0]} of {seeds[1]} pairs of seeds, by "
        f"{n.number(f'{CHAPTER}::seeds.median.k1'):.1f}% at the median. An mLSTM lies {n.number(f'{CHAPTER}::runs.offset'):.1f}% "
        "above a Llama trained alike."
    )


@claim(
    47,
    RANK,
    "our test",
    "Of all k, it is RBP_1 that follows cross-entropy most closely, as its exponent does in Table 1.",
    rule="holds if k = 1 leaves the least scatter, in per cent of cross-entropy, about a smooth curve in it, in every family "
    "and text of five models or more; in part if in most",
    evidence=f"{CHAPTER}#scatter-by-k",
    group=OWN,
)
def _(n: Numbers) -> tuple[str, str]:
    at_1, cells = n.count(f"{CHAPTER}::tightest_at_1"), n.count(f"{CHAPTER}::tightest_of")
    found = [round(k) for k in n.all(f"{CHAPTER}::tightest.")]
    return by_exceptions(cells - at_1, cells), (
        f"k = 1 is the closest in {at_1} of {cells}; the closest k lie from {min(found)} to {max(found)}."
    )


@claim(
    48,
    RANK,
    "our test",
    "By a power law in S, RBP_1 of a larger model is forecast more closely than its cross-entropy.",
    rule="holds if its relative error is the smaller one for three of four hidden models, in part if for more than half",
    evidence=f"{CHAPTER}#forecasts",
    group=OWN,
)
def _(n: Numbers) -> tuple[str, str]:
    nearer, count = n.count(f"{CHAPTER}::nearer.k1"), n.count(f"{CHAPTER}::forecasts.k1")
    return HOLDS if nearer >= 0.75 * count else PART if nearer > 0.5 * count else FAILS, (
        f"It is for {nearer} of {count}. For Pythia the errors are {n.number(f'{CHAPTER}::direct.Pythia.k1'):.1f}% "
        f"and {n.number(f'{CHAPTER}::control.Pythia.k1'):.1f}% at the median."
    )
