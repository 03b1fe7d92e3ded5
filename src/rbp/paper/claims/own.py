"""Questions that the paper does not ask, as claims with rules: our own tests."""

from rbp.paper.claims.ledger import OWN, Judged, Numbers, claim
from rbp.paper.claims.rules import Rule, above, at_least, by_share, share

RANK = "Rank and cross-entropy"
CHAPTER = "rank_and_cross_entropy"


@claim(
    46,
    RANK,
    "our test",
    "Models of one tokenizer and equal cross-entropy have equal RBP_1, whatever the text or their seed.",
    rule="holds if no comparison at equal cross-entropy leaves out 0, fails if most do: of two texts for a family, of a "
    "model trained again; in part between",
    evidence=f"{CHAPTER}#equal",
    group=OWN,
    core=True,
)
def _(n: Numbers) -> Judged:
    texts = [n.count(f"{CHAPTER}::{key}") for key in ("apart.k1", "compared.k1")]
    seeds = [n.count(f"{CHAPTER}::{key}") for key in ("seeds.apart.k1", "seeds.pairs.k1")]
    apart, compared = texts[0] + seeds[0], texts[1] + seeds[1]
    return by_share((compared - apart) / compared, "comparisons that do not leave out 0"), (
        f"{texts[0]} of {texts[1]} pairs of texts are apart, by up to "
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
def _(n: Numbers) -> Judged:
    at_1, cells = n.count(f"{CHAPTER}::tightest_at_1"), n.count(f"{CHAPTER}::tightest_of")
    found = [round(k) for k in n.all(f"{CHAPTER}::tightest.")]
    return by_share(at_1 / cells, "cells where k = 1 is the closest"), (
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
def _(n: Numbers) -> Judged:
    nearer, count = n.count(f"{CHAPTER}::nearer.k1"), n.count(f"{CHAPTER}::forecasts.k1")
    rule = Rule(
        at_least(nearer / count, "holds"),
        above(nearer / count, "part"),
        {
            "holds": share("hidden models forecast more closely, to hold", 0.75),
            "part": share("hidden models forecast more closely, in part: more than", 0.5),
        },
    )
    return rule, (
        f"It is for {nearer} of {count}. For Pythia the errors are {n.number(f'{CHAPTER}::direct.Pythia.k1'):.1f}% "
        f"and {n.number(f'{CHAPTER}::control.Pythia.k1'):.1f}% at the median."
    )
