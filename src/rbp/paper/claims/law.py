"""Claims on the law itself, its range, its data, and what happens at large k."""

from statistics import median

from rbp.paper.claims.ledger import FAILS, HOLDS, OWN, PART, Numbers, by_exceptions, claim

LAW, DATA, LARGE = "The law", "Models and measurements", "Large k"


@claim(
    1,
    LAW,
    "introduction, 4.1, 4.2",
    "−ln RBP_k is proportional to S^(−α) for k far below the vocabulary; R² is about 0.99 for k from 1 to 100.",
    rule="holds if, over all fits at k = 1, 10, 50 and 100, the median R² is at least 0.985 and none is below 0.97; in part if only the median is",
    evidence="04_moderate_k#fits-moderate-k",
)
def _(n: Numbers) -> tuple[str, str]:
    values = n.all("03_k1::r_squared.") + n.all("04_moderate_k::r_squared.")
    high = sum(value >= 0.97 for value in values)
    verdict = FAILS if median(values) < 0.985 else HOLDS if high == len(values) else PART
    return verdict, (
        f"R² is {median(values):.3f} at the median, at least 0.97 in {high} of {len(values)} fits, and {min(values):.3f} "
        f"at worst. R² cannot tell a power law from other smooth curves, though: with an offset, the median is "
        f"{n.number('09_forecasts::shape_r_squared.offset'):.3f}; for a logarithm of S, "
        f"{n.number('09_forecasts::shape_r_squared.logarithm'):.3f}."
    )


@claim(
    2,
    LAW,
    "4.1, figure 3",
    "At k = 1, every family on every dataset lies on a straight line in log-log axes.",
    rule="holds if R² is at least 0.98 in every fit; in part if in nine of ten",
    evidence="03_k1#figure-3",
)
def _(n: Numbers) -> tuple[str, str]:
    high, fits = n.count("03_k1::r_squared_high"), n.count("03_k1::fits")
    verdict = HOLDS if high == fits else PART if high >= 0.9 * fits else FAILS
    return verdict, (
        f"True for {high} of {fits}. The exception is {n.word('03_k1::r_squared_min_cell')}, with R² "
        f"{n.number('03_k1::r_squared_min'):.3f} from four models."
    )


@claim(
    3,
    LAW,
    "4.2, figure 4",
    "For k = 10, 50 and 100 the fits reach R² of at least 0.97 on all datasets.",
    rule="holds if R² is at least 0.97 in every fit; in part if in nine of ten",
    evidence="04_moderate_k#below-0.97",
)
def _(n: Numbers) -> tuple[str, str]:
    fits, below = n.count("04_moderate_k::fits"), n.count("04_moderate_k::r_squared_below")
    return by_exceptions(below, fits, part=0.1), (
        f"{fits - below} of {fits} fits reach it. Below it: {n.word('04_moderate_k::r_squared_below_cells')}. "
        f"Ours agree with {n.count('04_moderate_k::printed_agree')} of the {n.count('04_moderate_k::printed_numbers')} "
        "numbers that Table 1 prints for k = 10 and 100."
    )


@claim(
    4,
    LAW,
    "4.4, figure 6a",
    "R² stays above 0.9 for k below 1000.",
    rule="holds if every fit at k < 1000, ours and the printed ones, has R² above 0.9; in part if nine of ten",
    evidence="06_every_k",
)
def _(n: Numbers) -> tuple[str, str]:
    low, cells = n.count("06_every_k::printed_low"), n.count("06_every_k::printed_below_1000")
    ours, fits = n.count("06_every_k::r_squared_low"), n.count("06_every_k::fits_below_1000")
    verdict = HOLDS if low + ours == 0 else PART if low <= 0.1 * cells and ours <= 0.1 * fits else FAILS
    return verdict, (
        f"For Pythia, the family of figure 6, it holds: {n.number('06_every_k::published_r_squared_min'):.3f} at least. "
        f"Over all families, {low} of {cells} cells of Table 1 are at 0.9 or below: "
        f"{n.word('06_every_k::printed_low_cells')}. Of our {fits} fits, {ours} are."
    )


@claim(
    5,
    LAW,
    "introduction",
    "R² of the RBP law is comparable to that of cross-entropy.",
    rule="holds if the two printed R² at k = 1 differ by at most 0.01, or RBP's is larger, in every cell of Table 1",
    evidence="08_cross_entropy",
)
def _(n: Numbers) -> tuple[str, str]:
    cells, close = n.count("08_cross_entropy::printed_cells"), n.count("08_cross_entropy::r_squared_within_001")
    at_least = n.count("08_cross_entropy::r_squared_comparable")
    verdict = HOLDS if at_least == cells else PART if at_least >= 0.9 * cells else FAILS
    return verdict, (
        f"They differ by at most 0.01 in {close} of {cells} cells, and RBP's is as high or higher within 0.01 in {at_least}. "
        f"The largest gap is {n.word('08_cross_entropy::r_squared_worst')}: "
        f"{n.number('08_cross_entropy::r_squared_worst_ce'):.3f} for cross-entropy, "
        f"{n.number('08_cross_entropy::r_squared_worst_rbp'):.3f} for RBP₁."
    )


@claim(
    6,
    LAW,
    "4.4, figure 6b",
    "The exponent rises with k; it is close to 0.2 at k = 100 and below 0.1 at k = 1.",
    rule="holds if α at k = 100 exceeds α at k = 1, lies in 0.15 to 0.25, and is below 0.1 at k = 1, in every cell",
    evidence="06_every_k",
)
def _(n: Numbers) -> tuple[str, str]:
    cells = n.count("06_every_k::rise_cells")
    rise, close, below = (n.count(f"06_every_k::{key}") for key in ("rise", "close_02", "below_01"))
    verdict = HOLDS if min(rise, close, below) == cells else PART if rise > cells / 2 else FAILS
    return verdict, (
        f"α rises from k = 1 to 100 in {rise} of {cells} combinations of family and dataset. It is below 0.1 at k = 1 in "
        f"{below}, and in 0.15 to 0.25 at k = 100 in only {close}: from "
        f"{n.number('06_every_k::alpha_100_min'):.2f} to {n.number('06_every_k::alpha_100_max'):.2f} over all. "
        "The caption of figure 6b says that the value decreases with k; it means the slope, −α."
    )


@claim(
    10,
    LAW,
    "appendix B, Table 1",
    "The law holds on C4 and on GitHub too.",
    rule="holds if the printed R² is at least 0.97 at k = 1, 10 and 100 for every family; no points were published",
    evidence="10_table1",
)
def _(n: Numbers) -> tuple[str, str]:
    below, cells = n.count("10_table1::others.low"), n.count("10_table1::others.cells")
    return by_exceptions(below, cells), (
        f"By the printed R², {cells - below} of {cells} cells reach 0.97. The others: "
        f"{n.word('10_table1::others.low_cells')}. Without the points there are no intervals to give."
    )


@claim(
    31,
    LAW,
    "abstract: “robustness and accuracy”; our test",
    "The law is accurate: fitted to the smaller models, it predicts the larger ones.",
    rule="holds if the 95% prediction intervals cover 90% of the models left out; in part if errors are 5% at the median",
    evidence="09_forecasts#hidden-models",
    group=OWN,
)
def _(n: Numbers) -> tuple[str, str]:
    covered, count = n.count("09_forecasts::forecast.covered.all"), n.count("09_forecasts::forecast.count.all")
    error = n.number("09_forecasts::forecast.error_median.all")
    own, all_own = n.count("09_forecasts::forecast.covered.Pythia"), n.count("09_forecasts::forecast.count.Pythia")
    verdict = HOLDS if covered >= 0.9 * count else PART if error <= 5 else FAILS
    return verdict, (
        f"The error is {error:.1f}% at the median of {count} forecasts, but only {covered} lie in their interval; of Pythia's, "
        f"with ten sizes the sharpest test, {own} of {all_own}. {n.count('09_forecasts::forecast.optimistic.all')} "
        "of the forecasts are better than what the model then reached. So are those of cross-entropy by the same law, "
        f"{n.count('09_forecasts::control.optimistic')} of {n.count('09_forecasts::control.models')}, missed by "
        f"{n.number('09_forecasts::control.error_median'):.1f}% at the median: the law is too hopeful, not RBP."
    )


@claim(
    7,
    DATA,
    "introduction; appendix A",
    "The law covers 24 models over five orders of magnitude of S (“over four” in appendix A).",
    rule="holds if there are 24 models and log₁₀ of largest over smallest S is at least 5",
    evidence="02_measurements",
)
def _(n: Numbers) -> tuple[str, str]:
    models, orders = n.count("02_measurements::models"), n.number("02_measurements::sizes_orders_of_magnitude")
    verdict = HOLDS if models == 24 and orders >= 5 else PART if models == 24 and orders >= 4 else FAILS
    return verdict, (
        f"There are {models} models, and S spans {orders:.2f} orders of magnitude: appendix A is right, “five” is not. "
        f"Only Pythia spans more than two: GPT-2 spans "
        f"{n.number('02_measurements::sizes_orders_of_magnitude.GPT-2'):.1f}, OPT "
        f"{n.number('02_measurements::sizes_orders_of_magnitude.OPT'):.1f}, Qwen2.5 "
        f"{n.number('02_measurements::sizes_orders_of_magnitude.Qwen2.5'):.1f}."
    )


@claim(
    8,
    DATA,
    "appendix A",
    "The thresholds k span over five orders of magnitude.",
    rule="holds if log₁₀ of the largest over the smallest k that was published is at least 5",
    evidence="02_measurements",
)
def _(n: Numbers) -> tuple[str, str]:
    orders = n.number("02_measurements::thresholds_orders_of_magnitude")
    return HOLDS if orders >= 5 else FAILS, (
        f"The published thresholds run from {n.count('02_measurements::threshold_min')} to "
        f"{n.count('02_measurements::threshold_max')}: {orders:.1f} orders. Over five would need k above 100 000, which "
        "only Qwen2.5's vocabulary has room for, and Qwen2.5 is left out at large k."
    )


@claim(
    9,
    DATA,
    "appendix A",
    "Every point averages at least 500 000 tokens.",
    rule="holds if every number of tokens that can be recovered from the published shares reaches 500 000",
    evidence="02_measurements",
)
def _(n: Numbers) -> tuple[str, str]:
    known, below = n.count("02_measurements::cells_known"), n.count("02_measurements::cells_below_stated")
    return by_exceptions(below, known), (
        f"The shares are whole counts over whole counts, which gives the number of tokens away in {known} of "
        f"{n.count('02_measurements::cells')} combinations of family and dataset. It is below 500 000 in {below} of them: "
        f"{n.count('02_measurements::tokens.wikipedia.GPT-2'):,} for GPT-2 on Wikipedia (an exact count), and as few as "
        f"{n.count('02_measurements::tokens_min'):,} on HotpotQA. On Australian legal text it is near 500 000."
    )


@claim(
    13,
    DATA,
    "4.3, footnote 2",
    "The vocabularies have 50 256 (Pythia), 50 272 (OPT) and 50 257 (GPT-2) entries.",
    rule="holds if the models' configurations say so",
    evidence="02_measurements",
)
def _(n: Numbers) -> tuple[str, str]:
    agree = [
        family
        for family in ("Pythia", "OPT", "GPT-2")
        if n.word(f"02_measurements::vocabulary_agrees.{family}") == "yes"
    ]
    sizes = sorted({round(value) for value in n.all("02_measurements::vocabulary.Pythia.")})
    verdict = HOLDS if len(agree) == 3 else PART if agree else FAILS
    listed = ", ".join(f"{size:,}" for size in sizes[:-1]) + f" or {sizes[-1]:,}"
    return verdict, (
        f"It agrees for {' and '.join(agree)}. Pythia's models score {listed} entries, depending on the model: padded rows included."
    )


@claim(
    11,
    LARGE,
    "4.3, figure 5",
    "For k of 20 000 and 30 000 the law breaks down; GPT-2's RBP_k falls with size; k = 30 000 is more random than 20 000.",
    rule="holds if R² is lower at 30 000 than at 20 000 in every pair, and some α of GPT-2 is negative beyond its interval",
    evidence="05_large_k#fits-large-k",
)
def _(n: Numbers) -> tuple[str, str]:
    pairs, lower = n.count("05_large_k::pairs"), n.count("05_large_k::r_squared_lower")
    sure = n.word("05_large_k::alpha_surely_negative_cells")
    verdict = HOLDS if lower == pairs and "GPT-2" in sure else PART if lower > pairs / 2 else FAILS
    return verdict, (
        f"R² runs from {n.number('05_large_k::r_squared_min'):.2f} to {n.number('05_large_k::r_squared_max'):.2f}, and is lower at "
        f"30 000 in {lower} of {pairs} pairs. α is not positive in {n.count('05_large_k::alpha_not_positive')} of "
        f"{n.count('05_large_k::fits')} fits ({n.word('05_large_k::alpha_not_positive_cells')}), and its interval lies below 0 for {sure}. "
        f"For Pythia on Wikipedia, R² is still {n.number('05_large_k::r_squared.wikipedia.Pythia.k30000'):.2f} at 30 000."
    )
