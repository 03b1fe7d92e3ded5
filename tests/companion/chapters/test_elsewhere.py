"""α over k of made-up families, what one curve foretells of it, and theories on made-up models."""

import numpy as np
import pandas as pd
import pytest
from made_grid import SIZES, additive, make
from scipy.special import expit

from companion.chapters.elsewhere import in_k, ratios, theory
from companion.chapters.families import OURS
from companion.evidence import outside
from companion.stats.difficulty import CURVES
from rbp.errors import DataError, ParameterError

S = np.array([1e6, 1e7, 1e8, 1e9])


def family(curve, ks=(1, 2, 5, 10, 20, 50, 100, 200), sizes=S, dataset="d", name="f"):
    """−ln RBP_k of `curve`(k, size)."""
    rows = [(dataset, f"{name}-{size:g}", name, size, k, curve(k, size)) for size in sizes for k in ks]
    return pd.DataFrame(rows, columns=["dataset", "model", "family", "size", "k", "value"])


def test_the_ratio_is_that_of_the_laws_with_an_interval_over_models():
    points = family(lambda k, size: 3 * size ** (-0.1 if k == 1 else -0.17))
    (row,) = ratios.of_models(points, [10], source="x").to_dict("records")
    assert (row["alpha_1"], row["alpha"], row["ratio"]) == pytest.approx((0.1, 0.17, 1.7))
    assert (row["low"], row["high"]) == pytest.approx((1.7, 1.7))
    wave = 1 + 0.03 * np.sin(7 * np.log(S))
    bumpy = points.assign(value=points.value * points["size"].map(dict(zip(S, wave, strict=True))))
    (other,) = ratios.of_models(bumpy[(bumpy.k == 1) | (bumpy["size"] < 1e9)], [10], source="x").to_dict("records")
    by_hand = [-np.polyfit(np.log(S[:3]), np.log(3 * S[:3] ** -a * wave[:3]), 1)[0] for a in (0.1, 0.17)]
    assert other["ratio"] == pytest.approx(by_hand[1] / by_hand[0])  # only models that have both
    assert other["low"] < other["ratio"] < other["high"]


def test_what_hardly_falls_with_size_has_no_ratio():
    assert ratios.of_models(family(lambda k, size: size**-0.01), [10], source="x").empty
    assert ratios.of_models(family(lambda k, size: size**-0.1, sizes=S[:2]), [10], source="x").empty


def test_the_ladders_ratio_is_by_documents():
    texts = make({"neox": additive, "lstm": additive}, families=("neox", "lstm"))
    found = ratios.of_documents(texts, [10])
    sizes = np.array(list(SIZES.values()), dtype=float)
    by_hand = [-np.polyfit(np.log(sizes), np.log(additive(sizes, 8e6, k)), 1)[0] for k in (1, 10)]
    neox = found[found.family == "neox"]
    assert neox.ratio.to_numpy() == pytest.approx(by_hand[1] / by_hand[0], rel=0.02)
    assert (found.low <= found.ratio).all()
    assert (found.ratio <= found.high).all()


def test_problems_are_left_out_as_one_by_one_by_hand():
    found = ratios.of_problems([10]).iloc[0]
    tried = outside.problem_tries().query("training_tokens == '300B' and prompt != 5")
    assert found.ratio == pytest.approx(0.2284 / 0.1536, abs=1e-3)  # two numbers of the first look
    sizes = {"160m": 85056000, "410m": 302311424, "1b": 805736448, "1.4b": 1208602624, "2.8b": 2517652480}
    sizes |= {"6.9b": 6444163072, "12b": 11327027200}
    alphas = []
    for k in (1, 10):
        means = [
            outside.pass_at(k, *(tried[tried.model == f"pythia-{name}"][c] for c in ("samples", "correct"))).mean()
            for name in sizes
        ]
        alphas.append(-np.polyfit(np.log(list(sizes.values())), np.log(-np.log(means)), 1)[0])
    assert found.low < alphas[1] / alphas[0] < found.high


def test_a_curve_moved_along_ln_k_is_foretold_by_each_of_its_models():
    """The null: hits of σ(ln k + c ln S − δ), a mixture of two δ."""

    def null(k, size):
        u = np.log(k) + 0.3 * np.log(size / 1e6)
        return -np.log(0.3 * expit(u - 1) + 0.7 * expit(u - 4))

    sizes = np.array([1e6, 1.05e6, 1.1e6])  # so near that one slope is the curve's
    every = range(1, 401)
    points = family(null, ks=every, sizes=sizes)
    found = ratios.of_models(points, [10, 100], source="x").merge(ratios.own_curves(points, [10, 100]))
    step = 1e-4
    for row in found.to_dict("records"):
        slope = [np.log(null(k, 1.05e6 * (1 + step)) / null(k, 1.05e6)) for k in (row["k"], 1)]
        assert row["ratio"] == pytest.approx(slope[0] / slope[1], rel=1e-3)
        assert row["moved"] == pytest.approx(row["ratio"], rel=0.12)  # from neighbours a factor of 1.5 and 2 away


def test_the_limits_are_those_of_a_mixture_too():
    assert ratios.shifted_limits() == (1, 1)

    def y(u):
        return -np.log(0.3 * expit(u - 1) + 0.7 * expit(u - 4))

    def g(u, step=1e-4):
        return -(np.log(y(u + step)) - np.log(y(u - step))) / (2 * step)

    assert g(22 + 2) / g(22) == pytest.approx(1, abs=1e-3)
    assert g(-18 + 2) / g(-18) * y(-18 + 2) / y(-18) == pytest.approx(1, abs=1e-3)


def test_independent_tries_are_foretold_by_one_model():
    def tries(k, size):
        return -np.log(1 - (1 - 0.3 * (size / 1e6) ** 0.1) ** (k**0.4))

    points = family(tries, sizes=1e6 * np.array([1, 1.01, 1.02]))
    found = ratios.of_models(points, [10, 100], source="x")
    told = ratios.own_curves(points, [10, 100])
    assert told.tried.to_numpy() == pytest.approx(found.ratio.to_numpy(), rel=0.01)
    assert ratios.as_tries(1e-9 - np.log(0.3), -np.log(0.3)) == pytest.approx(1)  # one try
    assert told.moved.notna().all()
    assert ratios.own_curves(points.assign(value=0.5), [10]).moved.isna().all()  # a flat curve has no exponent
    two = ratios.own_curves(points[points.k.isin([1, 10])], [10])
    assert two.moved.isna().all()  # two k are no curve
    assert ratios.off(told.assign(ratio=1.1 * told.tried), "tried") == pytest.approx(100 * np.log(1.1))


def test_families_of_images_need_four_sizes_over_a_factor_of_three():
    tables = [
        family(lambda k, size: 1.0, ks=(1, 5), sizes=sizes, name=name)
        for name, sizes in (("a", [1, 2, 2.5, 3]), ("b", [1, 2, 2.5, 2.9]), ("c", [1, 2, 9]), ("d", [1, 2, 2, 9]))
    ]
    assert set(ratios.image_families(pd.concat(tables)).family) == {"a"}


def made(curve, parameters, datasets=("a", "b", "c", "d"), sizes=(1e4, 5e4, 1e5, 1e6, 3e6), name="neox", shift=0.0):
    rows = [
        (text, name, f"{name}-{size:g}", size, k, 6.0 + shift + 0.3 * i - 0.2 * np.log(size / 1e4))
        for i, text in enumerate(datasets)
        for size in sizes
        for k in (1, 2, 5, 10, 50, 100)
    ]
    table = pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "entropy"])
    return table.assign(value=np.exp(CURVES[curve][0](table.k, table.entropy, *parameters)))


def test_a_theory_that_is_true_foretells_all_that_is_held_out():
    true = "normal", (0.9, 0.35, 0.3, 0.8)
    ladder, lstm = made(*true), made(*true, name="lstm")
    published = made(*true, datasets=("a",), sizes=(1e8, 3e8, 1e9, 1e10), name="Pythia", shift=-1)
    found = theory.held_out(ladder, lstm, published)
    assert found.fit.nunique() == 7  # six pairs of four texts, and the published
    scores = theory.scored(found).set_index(["fitted", "told"])
    assert (scores.normal < 1e-3).all()
    held = scores.loc[OURS].drop("fitted on")
    assert (held[["product", "bent"]] > 0.1).all(axis=None)
    assert scores.loc[(OURS, "other texts"), "points"] == 6 * 2 * 3 * 6
    five = published[published.k.isin([1, 5])]
    values = theory.told(theory.scored(found), five.assign(dataset="imagenet"), five)
    assert values["told.published_models.normal"] == held.loc["published models", "normal"]
    misses = [-np.expm1(-five[five.k == k].sort_values("model").value.to_numpy()) for k in (1, 5)]
    assert values["worth.text"] == pytest.approx(np.median(np.log(misses[1]) / np.log(misses[0])))


def test_forecasts_are_those_that_were_registered(tmp_path):
    found = theory.read_forecasts()
    assert found.groupby("dataset").size().to_dict() == dict.fromkeys(("imagenet-a", "imagenet-r", "imagenet-real"), 10)
    assert (found.low < found.middle).all()
    assert (found.middle <= found.high).all()
    other = tmp_path / "images.toml"
    other.write_bytes(theory.FORECASTS.read_bytes().replace(b"middle = 1.68", b"middle = 1.78"))
    (tmp_path / "images.toml.sha256").write_bytes(theory.FORECASTS.with_suffix(".toml.sha256").read_bytes())
    with pytest.raises(DataError, match="not those that were registered"):
        theory.read_forecasts(other)
    other.write_text("level = 0.8")
    with pytest.raises(DataError, match="no forecasts"):
        theory.read_forecasts(other)


def test_the_bands_are_those_of_the_formula():
    import tomllib

    content = tomllib.loads(theory.FORECASTS.read_text())
    for curve in content["curve"]:
        for band in curve["bands"]:
            x = np.log(-np.log(band["rbp_1"]))
            assert np.exp(-np.exp(np.polyval(curve["c"][::-1], x))) == pytest.approx(band["middle"], abs=1e-3)


def of_family(other):
    """Texts of which the LSTM has another law, on five of the seven rungs."""
    texts = make({"neox": additive, "lstm": other}, families=("neox", "lstm"))
    return [text.keep(~text.models["model"].str.contains("lstm-22k|lstm-2.7m")) for text in texts]


def test_the_difference_of_exponents_is_that_of_the_laws():
    texts = of_family(lambda size, tokens, k=1: additive(size, tokens, k) * (size / 1e5) ** -0.02)
    found = in_k.exponents_beside(texts, "lstm", [1, 10])
    ranks = found.dropna(subset="k")
    assert ranks.n.unique() == [5]
    assert ranks.difference.to_numpy() == pytest.approx(0.02, abs=1e-4)
    assert (ranks.low <= 0.0201).all()
    assert (ranks.high >= 0.0199).all()
    assert (ranks.high - ranks.low < 0.005).all()  # the documents are the same for both
    five = np.array([size for rung, size in SIZES.items() if rung not in ("22k", "2.7m")])
    by_hand = -np.polyfit(np.log(five), np.log(additive(five, 8e6)), 1)[0]
    assert ranks.query("k == 1").alpha_transformer.to_numpy() == pytest.approx(by_hand, abs=2e-3)


def test_too_few_shared_rungs_are_an_error():
    texts = make(families=("neox", "lstm"))
    few = [text.keep((text.models["family"] == "neox") | (text.sizes < 5e4)) for text in texts]
    with pytest.raises(DataError, match="2 rungs"):
        in_k.exponents_beside(few, "lstm", [1])
    with pytest.raises(ParameterError, match="not counted at k = 4"):
        in_k.exponents_beside(texts, "lstm", [4])
