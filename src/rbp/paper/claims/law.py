"""Claims on the law itself, its range, its data, and what happens at large k."""

from dataclasses import replace
from statistics import median

from rbp.paper.claims.ledger import EARLIER, OWN, UNCHECKED, Judged, Numbers, claim
from rbp.paper.claims.rules import (
    Bar,
    Rule,
    above,
    at_least,
    below,
    by_share,
    every,
    met,
    r_squared,
    share,
    share_of,
    within,
)

LAW, DATA, LARGE = "The law", "Models and measurements", "Large k"
GOOD, KEPT = 0.97, 0.9  # R² of a good fit (section 4.2), and of one that the law still describes (4.4)


def _good_fits(values: list[float]) -> Rule:
    """All fits are to be good, or nine in ten."""
    bars = {"good": r_squared("R² of a good fit", GOOD)}
    rule = by_share(share_of(values, ">=", "good"), "fits that are good", part=0.9)
    return replace(rule, bars={**bars, **rule.bars})


def _orders(says: str, at: float) -> Bar:
    return Bar(says, at, 0, 8, 0.1)


@claim(
    1,
    LAW,
    "introduction, 4.1, 4.2",
    "−ln RBP_k is proportional to S^(−α) for k far below the vocabulary; R² is approximately 0.99 for k from 1 to 100.",
    rule="holds if, over all fits at k = 1, 10, 50 and 100, the median R² rounds to 0.99 or more and nine in ten reach 0.97, "
    "the paper's bar in 4.2; in part if only the median does",
    evidence="11_moderate_k#fits-moderate-k",
    core=True,
)
def _(n: Numbers) -> Judged:
    values = n.all("10_k1::r_squared.") + n.all("11_moderate_k::r_squared.")
    high = sum(value >= GOOD for value in values)
    typical = at_least(median(values), "median")
    rule = Rule(
        every(typical, at_least(share_of(values, ">=", "good"), "fits")),
        typical,
        {
            "median": r_squared("median R² over the fits", 0.985),
            "good": r_squared("R² of a good fit", GOOD),
            "fits": share("fits that are good, to hold", 0.9),
        },
    )
    return rule, (
        f"R² is {median(values):.3f} at the median, at least 0.97 in {high} of {len(values)} fits, and {min(values):.3f} "
        f"at worst. R² cannot tell a power law from other smooth curves, though: with an offset, the median is "
        f"{n.number('15_forecasts::shape_r_squared.offset'):.3f}; for a logarithm of S, "
        f"{n.number('15_forecasts::shape_r_squared.logarithm'):.3f}."
    )


@claim(
    2,
    LAW,
    "4.1, figure 3",
    "At k = 1, every family on every dataset lies on a straight line in log-log axes.",
    rule="holds if R² is at least 0.97, the paper's bar in 4.2, in every fit; in part if in nine of ten",
    evidence="10_k1#figure-3",
)
def _(n: Numbers) -> Judged:
    values = n.all("10_k1::r_squared.")
    low = sum(value < GOOD for value in values)
    return _good_fits(values), (
        f"True for {len(values) - low} of {len(values)}. The lowest R² is {min(values):.3f}: "
        f"{n.word('10_k1::r_squared_min_cell')}, four models."
    )


@claim(
    3,
    LAW,
    "4.2, figure 4",
    "For k = 10, 50 and 100 the fits reach R² of at least 0.97 on all datasets.",
    rule="holds if R² is at least 0.97 in every fit; in part if in nine of ten",
    evidence="11_moderate_k#below-0.97",
)
def _(n: Numbers) -> Judged:
    fits, low = n.count("11_moderate_k::fits"), n.count("11_moderate_k::r_squared_below")
    return _good_fits(n.all("11_moderate_k::r_squared.")), (
        f"{fits - low} of {fits} fits reach it. Below it: {n.word('11_moderate_k::r_squared_below_cells')}. "
        f"Ours agree with {n.count('11_moderate_k::printed_agree')} of the {n.count('11_moderate_k::printed_numbers')} "
        "numbers that Table 1 prints for k = 10 and 100."
    )


@claim(
    4,
    LAW,
    "4.4, figure 6a",
    "R² stays above 0.9 for k below 1000.",
    rule="holds if every point of figure 6a (Pythia, four datasets) at k < 1000 lies above 0.9; in part if nine in ten do",
    evidence="13_every_k#figure-6a",
)
def _(n: Numbers) -> Judged:
    points, low = n.count("13_every_k::figure6.below_1000"), n.count("13_every_k::figure6.low")
    return by_share((points - low) / points, "points above 0.9", part=0.9), (
        f"The lowest of the {points} points is {n.number('13_every_k::published_r_squared_min'):.3f}, and our fits give the "
        f"same curves. The other families are not in the figure: over all, {n.count('13_every_k::printed_low')} of "
        f"{n.count('13_every_k::printed_below_1000')} cells of Table 1 are at 0.9 or below "
        f"({n.word('13_every_k::printed_low_cells')}), and {n.count('13_every_k::r_squared_low')} of our "
        f"{n.count('13_every_k::fits_below_1000')} fits."
    )


@claim(
    5,
    LAW,
    "introduction",
    "R² of the RBP law is comparable to that of cross-entropy.",
    rule="holds if the two printed R² at k = 1 differ by at most 0.01, in either direction, in nine of ten cells of Table 1; in part "
    "if in most",
    evidence="19_cross_entropy",
    core=True,
)
def _(n: Numbers) -> Judged:
    cells, close = n.count("19_cross_entropy::printed_cells"), n.count("19_cross_entropy::r_squared_within_001")
    at_least = n.count("19_cross_entropy::r_squared_comparable")
    return by_share(close / cells, "cells that differ by at most 0.01", holds=0.9), (
        f"They differ by at most 0.01 in {close} of {cells} cells; of the other {cells - close}, RBP's is higher in {at_least - close}. "
        f"The largest gap is {n.word('19_cross_entropy::r_squared_worst')}: "
        f"{n.number('19_cross_entropy::r_squared_worst_ce'):.3f} for cross-entropy, "
        f"{n.number('19_cross_entropy::r_squared_worst_rbp'):.3f} for RBP₁."
    )


@claim(
    6,
    LAW,
    "4.4, figure 6b",
    "The exponent rises with k; it is close to 0.2 at k = 100 and below 0.1 at k = 1.",
    rule="on the curves of figure 6b (Pythia, four datasets): holds if α rises in nine of ten steps of k, and on every dataset is "
    "below 0.1 at k = 1 and rounds to 0.2 at k = 100; in part if two of the three",
    evidence="13_every_k#figure-6b",
    core=True,
)
def _(n: Numbers) -> Judged:
    steps, falling = n.count("13_every_k::published_steps"), n.count("13_every_k::published_falling")
    curves, low, close = (n.count(f"13_every_k::figure6.{key}") for key in ("curves", "below_01", "close_02"))
    three = (
        at_least((steps - falling) / steps, "rises"),
        at_least(low / curves, "datasets"),
        at_least(close / curves, "datasets"),
    )
    bars = {"rises": share("steps in which α rises", 0.9), "datasets": share("datasets that meet either bound", 1)}
    return Rule(every(*three), met(2, *three), bars), (
        f"α rises in {steps - falling} of {steps} steps. It is below 0.1 at k = 1 on {low} of {curves} datasets, and rounds to "
        f"0.2 at k = 100 on {close}. Over all families, it rises from k = 1 to 100 in {n.count('13_every_k::rise')} of "
        f"{n.count('13_every_k::rise_cells')} cells, and is {n.number('13_every_k::alpha_100_min'):.2f} to "
        f"{n.number('13_every_k::alpha_100_max'):.2f} at k = 100. The caption of figure 6b says that the value decreases with k; "
        "it means the slope, −α."
    )


@claim(
    38,
    LAW,
    "4.4, figure 6a",
    "The quality of the fit only starts to drop once k is close to the vocabulary's size.",
    rule="holds if, on every curve of figure 6a (Pythia, four datasets), R² is at least 0.97 (4.2) at every k below 20 000, where 4.3 "
    "says that k approaches the vocabulary; in part if on half of them",
    evidence="13_every_k#figure-6a",
)
def _(n: Numbers) -> Judged:
    curves, kept = n.count("13_every_k::figure6.curves"), n.count("13_every_k::figure6.kept")
    return by_share(kept / curves, "datasets where it is so"), (
        f"It is so on {kept} of {curves} datasets. Below 0.97 first: {n.word('13_every_k::figure6.first_drops')}."
    )


@claim(
    39,
    LAW,
    "earlier version, 4.3",
    "The law holds for small k only, typically under 100.",
    rule="holds if the printed R² is at least 0.97 (4.2) in nine of ten cells of Table 1 with k up to 100, and in less than half of those "
    "beyond; in part if one of the two",
    evidence="17_table1",
    group=EARLIER,
)
def _(n: Numbers) -> Judged:
    small, large = (n.count(f"13_every_k::printed_cells.{end}") for end in ("small", "large"))
    good, still = (n.count(f"13_every_k::printed_good.{end}") for end in ("small", "large"))
    two = at_least(good / small, "small"), below(still / large, "large")
    bars = {
        "small": share("cells up to 100 with a good fit, at least", 0.9),
        "large": share("cells beyond with a good fit, less than", 0.5, harder=-1),
    }
    return Rule(every(*two), met(1, *two), bars), (
        f"R² reaches 0.97 in {good} of {small} cells with k up to 100, and in {still} of {large} with k = 500, 2500 or 10 000. "
        "There is no edge at 100: it falls off slowly, and at different k for each family and dataset. The final version leaves "
        "out the words."
    )


@claim(
    40,
    LAW,
    "4.4",
    "RBP_100 is easy to optimize and RBP_1 is hard, because the exponent is larger.",
    rule="holds if in nine of ten cells, from the smallest to the largest model of a family, both −ln RBP_k falls by a larger factor "
    "and RBP_k gains more percentage points at k = 100 than at k = 1; in part if one of the two",
    evidence="13_every_k#exponent-by-k",
)
def _(n: Numbers) -> Judged:
    cells = n.count("13_every_k::gain_cells")
    factor, points = n.count("13_every_k::gain_factor"), n.count("13_every_k::gain_points")
    two = at_least(factor / cells, "cells"), at_least(points / cells, "cells")
    return Rule(every(*two), met(1, *two), {"cells": share("cells that gain more at k = 100", 0.9)}), (
        f"In proportion, yes: −ln RBP_100 falls by the larger factor in {factor} of {cells} cells. In percentage points RBP_100 gains "
        f"more in {points}: less is left to gain there. How hard training for either would be, nobody has tried."
    )


@claim(
    34,
    LAW,
    "4.1",
    "Greedy decoding improves as models grow, as RBP_1 does.",
    rule="holds if RBP_1, the share of places where the first guess is right, rises in nine of ten steps to the next larger model; in "
    "part if in most",
    evidence="10_k1#figure-3",
)
def _(n: Numbers) -> Judged:
    rises, steps = n.count("10_k1::falls"), n.count("10_k1::neighbours")
    return by_share(rises / steps, "steps in which it rises", holds=0.9), (
        f"RBP_1 rises in {rises} of {steps} steps. This is about the next token of a given text, as the paper measures it; no text was "
        "generated and judged."
    )


@claim(
    35,
    LAW,
    "4.2",
    "Top-k sampling improves as models grow, as RBP_k does for small k.",
    rule="would be decided by the chance that a draw from the first k is right: the truth's probability over that of the first k",
    evidence="11_moderate_k#fits-moderate-k",
)
def _(n: Numbers) -> Judged:
    rises, steps = n.count("11_moderate_k::falls"), n.count("11_moderate_k::neighbours")
    return UNCHECKED, (
        f"RBP_k, which bounds that chance from above, rises in {rises} of {steps} steps to the next larger model at k = 10, 50 and 100. "
        "But what is drawn depends on the probabilities of the first k, which were not published. It would take the models, or "
        "for each token its probability and the sum over the first k."
    )


@claim(
    10,
    LAW,
    "appendix B, Table 1",
    "The law holds on C4 and on GitHub too.",
    rule="holds if the printed R² is at least 0.97 (4.2) at k = 1, 10 and 100 for every family, where no points were published; in part if "
    "in half of the cells",
    evidence="17_table1",
)
def _(n: Numbers) -> Judged:
    low, cells = n.count("17_table1::others.low"), n.count("17_table1::others.cells")
    return by_share((cells - low) / cells, "cells with R² of 0.97 or more"), (
        f"By the printed R², {cells - low} of {cells} cells reach 0.97. The others: "
        f"{n.word('17_table1::others.low_cells')}. Without the points there are no intervals to give."
    )


@claim(
    31,
    LAW,
    "abstract: “robustness and accuracy”; our test",
    "The law is accurate: fitted to the smaller models, it predicts the larger ones.",
    rule="a cut is a family with its one largest model hidden, its two largest, and so on, while three sizes are left (k = 1, 10 and "
    "100, all texts); holds if the 95% prediction intervals cover 90% of the forecasts at nine in ten cuts; in part if errors are at "
    "most 5% at the median at most cuts",
    evidence="15_forecasts#every-cut",
    group=OWN,
    core=True,
)
def _(n: Numbers) -> Judged:
    key = "15_forecasts::cut"
    covered, errors = n.all(f"{key}.covered_share."), n.all(f"{key}.error_median.")
    rule = Rule(
        at_least(share_of(covered, ">=", "covered"), "cuts"),
        above(share_of(errors, "<=", "error"), "most"),
        {
            "covered": share("forecasts inside their interval at a cut", 0.9),
            "error": within("median error in per cent at a cut", 5, 20, 0.5),
            "cuts": share("cuts with intervals that cover, to hold", 0.9),
            "most": share("cuts with errors so small, in part: more than", 0.5),
        },
    )
    good, small = sum(each >= 0.9 for each in covered), sum(each <= 5 for each in errors)
    two, six = (f"{n.count(f'{key}.optimistic.Pythia.h{h}')} of {n.count(f'{key}.count.Pythia.h{h}')}" for h in (2, 6))
    return rule, (
        f"Intervals cover 90% of the forecasts at {good} of {len(covered)} cuts, and errors are 5% or less at the median at {small}. "
        f"Which way the law errs depends on the cut: with Pythia's two largest models hidden, {two} forecasts are better than what the "
        f"model then reached, with its six largest {six}. With one hidden, over all families, "
        f"{n.count('15_forecasts::cuts.one.optimistic')} of {n.count('15_forecasts::cuts.one.count')}. The cross-entropy of "
        f"{n.count('15_forecasts::control.models')} hidden models (Pythia's two largest, GPT-2's largest; Wikipedia) is missed by "
        f"{n.number('15_forecasts::control.error_median'):.1f}% at the median, and too hopefully for "
        f"{n.count('15_forecasts::control.optimistic')}."
    )


@claim(
    7,
    DATA,
    "introduction; appendix A",
    "The law covers 24 models over five orders of magnitude of S (“over four” in appendix A).",
    rule="holds if there are 24 models and log₁₀ of largest over smallest S is at least 5; in part if 24, and at least 4",
    evidence="03_measurements",
)
def _(n: Numbers) -> Judged:
    models, orders = n.count("03_measurements::models"), n.number("03_measurements::sizes_orders_of_magnitude")
    rule = Rule(
        every(models == 24, at_least(orders, "holds")),
        every(models == 24, at_least(orders, "part")),
        {"holds": _orders("orders of magnitude, to hold", 5), "part": _orders("orders of magnitude, in part", 4)},
    )
    return rule, (
        f"There are {models} models, and S spans {orders:.2f} orders of magnitude: appendix A is right, “five” is not. "
        f"Only Pythia spans more than two: GPT-2 spans "
        f"{n.number('03_measurements::sizes_orders_of_magnitude.GPT-2'):.1f}, OPT "
        f"{n.number('03_measurements::sizes_orders_of_magnitude.OPT'):.1f}, Qwen2.5 "
        f"{n.number('03_measurements::sizes_orders_of_magnitude.Qwen2.5'):.1f}."
    )


@claim(
    8,
    DATA,
    "appendix A",
    "The thresholds k span over five orders of magnitude.",
    rule="holds if log₁₀ of the largest over the smallest k that was published is at least 5; in part if they fall into five decades, as "
    "who counts ones, tens, … would say",
    evidence="03_measurements",
)
def _(n: Numbers) -> Judged:
    orders = n.number("03_measurements::thresholds_orders_of_magnitude")
    low, high = n.count("03_measurements::threshold_min"), n.count("03_measurements::threshold_max")
    decades = len(str(high)) - len(str(low)) + 1
    rule = Rule(
        at_least(orders, "orders"),
        at_least(decades, "decades"),
        {"orders": _orders("orders of magnitude, to hold", 5), "decades": Bar("decades, in part", 5, 0, 8, 1)},
    )
    return rule, (
        f"The published thresholds run from {low} to {high:,}: a factor of {orders:.1f} orders, in {decades} decades. A factor of five "
        "orders would need k above 100 000, which only Qwen2.5's vocabulary has room for, and Qwen2.5 is left out at large k."
    )


@claim(
    9,
    DATA,
    "appendix A",
    "Every point averages at least 500 000 tokens.",
    rule="holds if every number of tokens that can be recovered from the published shares reaches 500 000; in part if half do",
    evidence="03_measurements",
)
def _(n: Numbers) -> Judged:
    known, fewer = n.count("03_measurements::cells_known"), n.count("03_measurements::cells_below_stated")
    return by_share((known - fewer) / known, "numbers of tokens that reach 500 000"), (
        f"It is below 500 000 in {fewer} of {known} combinations of family and dataset: shares are whole counts over whole counts, "
        f"which gives the number of tokens away in these {known} of {n.count('03_measurements::cells')}. It is "
        f"{n.count('03_measurements::tokens.wikipedia.GPT-2'):,} for GPT-2 on Wikipedia (an exact count), and as few as "
        f"{n.count('03_measurements::tokens_min'):,} on HotpotQA. On Australian legal text it is near 500 000."
    )


@claim(
    13,
    DATA,
    "4.3, footnote 2",
    "The vocabularies have 50 256 (Pythia), 50 272 (OPT) and 50 257 (GPT-2) entries.",
    rule="holds if the models' configurations say so of all three families; in part if of some",
    evidence="03_measurements",
)
def _(n: Numbers) -> Judged:
    agree = [
        family
        for family in ("Pythia", "OPT", "GPT-2")
        if n.word(f"03_measurements::vocabulary_agrees.{family}") == "yes"
    ]
    sizes = sorted({round(value) for value in n.all("03_measurements::vocabulary.Pythia.")})
    listed = ", ".join(f"{size:,}" for size in sizes[:-1]) + f" or {sizes[-1]:,}"
    return Rule(len(agree) == 3, bool(agree)), (
        f"It agrees for {' and '.join(agree)}. Pythia's models score {listed} entries, depending on the model: padded rows included."
    )


@claim(
    36,
    DATA,
    "4.3, footnote 2",
    "With k of 20 000 and 30 000, the chosen k nearly cover the entire vocabulary.",
    rule="holds if the largest k is at least nine tenths of the vocabulary's entries; in part if at least nine tenths of the tokens of "
    "every text are among the first 20 000",
    evidence="03_measurements",
)
def _(n: Numbers) -> Judged:
    entries, covered = n.number("03_measurements::threshold_share_of_vocabulary"), n.number("13_every_k::covered_min")
    rule = Rule(
        at_least(entries, "entries"),
        at_least(covered, "tokens"),
        {"entries": share("entries covered, to hold", 0.9), "tokens": share("tokens covered, in part", 0.9)},
    )
    return rule, (
        f"k = 30 000 is {entries:.0%} of GPT-2's entries. But rare entries are rarely the truth: at least {covered:.1%} of the tokens of a "
        "text are among the first 20 000."
    )


@claim(
    37,
    DATA,
    "4.3, footnote 2",
    "Qwen2.5's vocabularies have 151 936 entries for models up to 7B, and 152 064 for larger ones.",
    rule="holds if the models' configurations say so of every model; in part if the two sizes are right",
    evidence="03_measurements",
)
def _(n: Numbers) -> Judged:
    sizes = [n.count(f"03_measurements::vocabulary.Qwen2.5.{i}") for i in range(2)]
    larger = n.word("03_measurements::vocabulary.Qwen2.5.large")
    right = sizes == [151_936, 152_064]
    return Rule(right and larger == "Qwen2.5-14B", right), (
        f"The sizes are {' and '.join(f'{size:,}' for size in sizes)}, and the larger one is that of {larger}: "
        "the 7B model is on the other side."
    )


@claim(
    11,
    LARGE,
    "4.3, figure 5",
    "For k of 20 000 and 30 000 the law breaks down; GPT-2's RBP_k falls with size; k = 30 000 is more random than 20 000.",
    rule="holds if R² is at most 0.9 (4.4), if GPT-2's α is below 0, and if R² is lower at 30 000 than at 20 000, each in nine of ten "
    "cases; in part if each in most",
    evidence="12_large_k#fits-large-k",
    core=True,
)
def _(n: Numbers) -> Judged:
    fits = n.all("12_large_k::r_squared.")
    gpt2 = [n.number(key) for key in n if key.startswith("12_large_k::alpha.") and ".GPT-2." in key]
    low, negative = sum(value <= KEPT for value in fits), sum(value < 0 for value in gpt2)
    pairs, lower = n.count("12_large_k::pairs"), n.count("12_large_k::r_squared_lower")
    three = share_of(fits, "<=", "kept"), negative / len(gpt2), lower / pairs
    rule = Rule(
        every(*(at_least(each, "holds") for each in three)),
        every(*(above(each, "part") for each in three)),
        {
            "kept": Bar("R² at which a law has broken down, at most", KEPT, 0.5, 1, 0.005, harder=-1, zero=1),
            "holds": share("cases of each kind, to hold", 0.9),
            "part": share("cases of each kind, in part: more than", 0.5),
        },
    )
    return rule, (
        f"R² is at most 0.9 in {low} of {len(fits)} fits only, and {n.number('12_large_k::r_squared_max'):.2f} at best "
        f"({n.word('12_large_k::r_squared_max_cell')}). GPT-2's α is below 0 in {negative} of {len(gpt2)}, beyond its interval for "
        f"{n.word('12_large_k::alpha_surely_negative_cells')}. R² is lower at 30 000 in {lower} of {pairs} pairs."
    )
