"""Size and training of a made-up family whose law is known."""

import numpy as np
import pytest
from made_grid import BUDGETS, KS, SIZES, additive, make

from rbp.core.errors import FitError, ParameterError
from rbp.paper import size_and_training as study
from rbp.paper.families import points as points_of
from rbp.stats.surface import ADDITIVE, PRODUCT


def product(size, tokens, k=1):
    return 40 * size**-0.05 * tokens**-0.15 / k**0.4


@pytest.fixture(scope="module")
def texts():
    return make(families=("neox",), spread=0.0)


def test_the_law_that_made_the_grid_is_found_and_foretells_what_was_not_seen(texts):
    table = study.forms(points_of(texts, KS))
    at_1 = table[(table.k == 1) & (table.form == ADDITIVE)]
    assert at_1.alpha.to_numpy() == pytest.approx(0.3, abs=0.01)
    assert at_1.beta.to_numpy() == pytest.approx(0.6, abs=0.01)
    assert at_1.offset.to_numpy() == pytest.approx(0.4, abs=0.01)
    assert (at_1.unseen_budget < 0.1).all()
    others = table[(table.k == 1) & (table.form != ADDITIVE)]
    assert (others.unseen_budget > 3).all()
    for by in ("aicc", "unseen_budget", "unseen_size"):
        assert set(study.best(table[table.k.notna()], by)) == {ADDITIVE}


def test_a_product_is_found_where_it_is_the_law():
    points = points_of(make(product, families=("neox",), texts={"wikipedia": 5}, spread=0.0), [1])
    table = study.forms(points[points.k == 1]).set_index("form")
    assert (table.alpha[PRODUCT], table.beta[PRODUCT]) == pytest.approx((0.05, 0.15), abs=1e-3)
    assert table.unseen_budget[PRODUCT] < 0.1
    assert study.best(table.reset_index(), "aicc").tolist() == [PRODUCT]


def test_exponents_at_a_budget_are_those_of_the_law(texts):
    found = study.by_budget(study.lines(texts, [1]))
    sizes = np.array(list(SIZES.values()))
    for budget in BUDGETS:
        by_hand = -np.polyfit(np.log(sizes), np.log(additive(sizes, budget)), 1)[0]
        own = found[(found.training_tokens == budget) & (found.k == 1)]
        assert own.alpha.to_numpy() == pytest.approx(by_hand, abs=1e-4)
    last = found[(found.training_tokens == BUDGETS[-1]) & (found.k == 1)]
    assert (last.difference > 0.02).all()  # what tokens leave, size cannot take away
    assert (last.difference_high - last.difference_low < 1e-4).all()  # documents that are alike tell no difference


def test_along_constant_tokens_per_parameter_both_terms_fall(texts):
    direct = study.along_ratio(study.lines(texts, [1]), 20).dropna(subset="k").set_index(study.CELL)
    sizes = np.array([s for s in SIZES.values() if 0.5e6 <= 20 * s <= 8e6])
    by_hand = -np.polyfit(np.log(sizes), np.log(additive(sizes, 20 * sizes)), 1)[0]
    assert direct.alpha["wikipedia", 1] == pytest.approx(by_hand, rel=0.05)  # linear between budgets
    assert direct.sizes.unique() == [len(sizes)]
    with pytest.raises(ParameterError, match="0 sizes"):
        study.along_ratio(study.lines(texts, [1]), 1e6)


def test_the_jackknife_has_the_exponents_of_the_law(texts):
    points = points_of(texts, [1])
    found = study.jackknifed(points[points.dataset == "wikipedia"]).query("k == 1").set_index("quantity")
    size, tokens = np.exp(np.mean(np.log(list(SIZES.values())))), BUDGETS[-1]
    a, b = 0.3 * 6 * size**-0.3, 0.6 * 900 * tokens**-0.6
    y = additive(size, tokens)
    for name, value in {"alpha": 0.3, "beta": 0.6, "fixed": a / y, "along": (a + b) / y}.items():
        assert found.estimate[name] == pytest.approx(value, rel=0.02), name
        assert found.units[name] == len(SIZES)


def test_sizes_that_a_budget_lacks_are_left_out_of_all(texts):
    some = [text.keep((text.sizes < 5e5) | (text.models["budget"] == BUDGETS[-1])) for text in texts]
    found = study.by_budget(study.lines(some, [1]))
    assert set(found.n) == {5}
    only = [text.keep(text.models["budget"] == BUDGETS[0]) for text in texts]
    assert len(study.by_budget(study.lines(only, [1])).training_tokens.unique()) == 1
    with pytest.raises(FitError, match="2 sizes"):
        study.lines([text.keep(text.sizes < 5e4) for text in some], [1])
