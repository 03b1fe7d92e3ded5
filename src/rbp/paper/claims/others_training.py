"""Claims of others on size, training tokens and tries, and our own test of what an exponent is."""

from rbp.paper.claims.ledger import FAILS, HOLDS, OTHERS, OWN, PART, UNCHECKED, Numbers, claim

TRAINING = "Size and training"
CHAPTER = "26_exponent"


@claim(
    56,
    TRAINING,
    "Hoffmann et al., arXiv:2203.15556, equation 2",
    "Size and training tokens act on the loss as a sum: E + A/S^a + B/D^b.",
    rule="holds if the sum foretells sweeps that it was not fitted to better than a product of powers, for the loss and for "
    "−ln RBP_1 of the Llama runs of xLSTM Scaling Laws; in part if for one of the two",
    evidence="26_exponent#forms",
    group=OTHERS,
)
def _(n: Numbers) -> tuple[str, str]:
    missed = {
        (measure, form): n.number(f"{CHAPTER}::missed.llama.{measure}.{form}")
        for measure in ("loss", "rank")
        for form in ("additive", "product")
    }
    better = sum(missed[measure, "additive"] < missed[measure, "product"] for measure in ("loss", "rank"))
    verdict = HOLDS if better == 2 else PART if better else FAILS
    return verdict, (
        f"Of the loss in sweeps left out, the sum misses {missed['loss', 'additive']:.0f} per cent of the variation, the product "
        f"{missed['loss', 'product']:.0f}; of −ln RBP_1, {missed['rank', 'additive']:.0f} and {missed['rank', 'product']:.0f}. "
        f"So what was found for the loss holds for ranks too. The exponents a differ by "
        f"{n.number(f'{CHAPTER}::value.difference.alpha'):.3f} (interval {n.number(f'{CHAPTER}::low.difference.alpha'):.3f} to "
        f"{n.number(f'{CHAPTER}::high.difference.alpha'):.3f})."
    )


@claim(
    57,
    TRAINING,
    "arXiv:2509.24012 (known to us at second hand)",
    "As k grows, −ln pass@k falls ever more steeply with compute: the exponent goes from 0.12 to 0.38.",
    rule="their runs are not at hand; beside it stands what k tries do on single tokens of our ladder",
    evidence="26_exponent#lists-and-tries",
    group=OTHERS,
)
def _(n: Numbers) -> tuple[str, str]:
    return UNCHECKED, (
        f"Theirs are tasks, and fits with an irreducible term. For k tries on a next token of our ladder, computed exactly, the "
        f"exponent in size is higher at k = {n.count(f'{CHAPTER}::k.fitted')} than at 1 on {n.count(f'{CHAPTER}::tries.rise')} of "
        f"{n.count(f'{CHAPTER}::texts')} texts, and at k = {n.count(f'{CHAPTER}::k.last')} it is below that of one try on "
        f"{n.count(f'{CHAPTER}::tries.lower')}. Of lists of k, RBP_k, it has grown on {n.count(f'{CHAPTER}::list.higher')}."
    )


@claim(
    58,
    TRAINING,
    "asked of the law of section 4",
    "The exponent in size is the same however long the models of a family were trained.",
    rule="holds if the interval of the change of Pythia’s exponent on LAMBADA, each model compared with itself between two "
    "snapshots, contains 0",
    evidence="26_exponent#over-training",
    group=OWN,
)
def _(n: Numbers) -> tuple[str, str]:
    low, high = (n.number(f"{CHAPTER}::change_{end}") for end in ("low", "high"))
    return HOLDS if low <= 0 <= high else FAILS, (
        f"From step {n.count(f'{CHAPTER}::step.early')} to {n.count(f'{CHAPTER}::step.late')} it grows from "
        f"{n.number(f'{CHAPTER}::alpha.early'):.3f} to {n.number(f'{CHAPTER}::alpha.late'):.3f}; the change lies between {low:.3f} and "
        f"{high:.3f}. These are snapshots of one schedule, and −ln accuracy on whole words, not RBP_1. On others’ runs over sizes "
        f"and tokens, the exponent of −ln RBP_1 in size is {n.number(f'{CHAPTER}::llama.rank.at_d'):.3f} at fixed tokens and "
        f"{n.number(f'{CHAPTER}::llama.rank.at_ratio'):.3f} at constant tokens per parameter."
    )
