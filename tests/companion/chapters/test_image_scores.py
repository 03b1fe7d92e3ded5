"""`rbp forecasts score`: made-up measurements, whose outcomes and scores are counted by hand."""

import numpy as np
import pandas as pd
import pytest
from commands import here
from scipy.stats import linregress, norm

from companion.evidence import outside

SIZES = (10, 20, 40, 80)  # millions
RATIOS = {"one": 1.1, "two": 1.25, "three": 0.9, "flat": 1.0}
COLUMNS = ["dataset", "model", "param_count", "img_size", "top1", "top5"]


def rows(dataset):
    """Three families with exact powers, α_1 = 0.3 and these ratios; a flat one, a narrow one, and two strays."""
    found = []
    for name, ratio in RATIOS.items():
        alpha = 0.01 if name == "flat" else 0.3
        for size in SIZES:
            first, fifth = 0.9 * (size / 10) ** -alpha, 0.4 * (size / 10) ** -(alpha * ratio)
            found.append((dataset, f"{name}_b{size}.made", size, 224, 100 * np.exp(-first), 100 * np.exp(-fifth)))
    found += [(dataset, f"narrow_b{size}.made", size, 224, 60 + size, 90 + size / 10) for size in (10, 11, 12, 13)]
    strays = {"blind": (0, 20), "perfect": (70, 100)}  # RBP_1 = 0, RBP_5 = 1
    found += [(dataset, f"{name}.made", 5, 224, *shares) for name, shares in strays.items()]
    return pd.DataFrame(found, columns=COLUMNS)


def density(at, low, middle, high):
    """ln of a normal density in two halves, whose interval of 0.8 is [low, high]."""
    return norm.logpdf(at, middle, (high - middle if at >= middle else middle - low) / norm.ppf(0.9))


def test_made_up_values_have_the_scores_that_are_counted_by_hand(tmp_path, monkeypatch):
    """By the forecasts of data/predictions/images.toml; on the second test set no family has a ratio."""
    narrow = rows("imagenet-real").query("model.str.startswith('narrow')")
    pd.concat([rows("imagenet-r"), narrow]).to_csv(tmp_path / "mine.csv", index=False)
    known = outside.image_models()
    few = known[known["model"].str.startswith(("convnext", "swin"))]  # all of them take two seconds
    monkeypatch.setattr(outside, "image_models", lambda: few)
    done = here("forecasts", "score", "mine.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = pd.read_csv(tmp_path / "runs" / "forecasts.csv")
    found = scores[scores["id"].str.endswith("imagenet-r") | scores["id"].str.contains("imagenet-r.", regex=False)]
    found = found.set_index(found["id"].str.split(".").str[1])
    own = rows("imagenet-r").query("top1 > 0 and top5 < 100")
    line = linregress(*(np.log(-np.log(own[name] / 100)) for name in ("top1", "top5")))
    wanted = {"ratio_median": 1.1, "ratio_lowest": 0.9, "ratio_highest": 1.25, "slope": line.slope}
    wanted |= {"share": 2 / 3, "r_squared": line.rvalue**2}  # the flat family and the narrow one do not count
    assert found["outcome"][[*wanted]].to_dict() == pytest.approx(wanted)
    median, highest = found.loc["ratio_median"], found.loc["ratio_highest"]
    assert (median["inside"], median["naive_inside"], highest["inside"]) == (1, 0, 0)
    assert median["score"] == pytest.approx(density(1.1, 1.03, 1.15, 1.28))
    assert median["naive_score"] == pytest.approx(density(1.1, 1.2, 1.525, 1.85))
    assert highest["score"] == pytest.approx(density(1.25, 1.38, 1.6, 2.1))
    without = scores[scores["id"].str.contains("imagenet-real")]
    ratios = without["id"].str.contains("ratio|share")
    assert without.loc[ratios, ["outcome", "inside", "score"]].isna().all(axis=None)
    assert without.loc[~ratios, "score"].notna().all()
    assert done.stdout.count("could not be computed") == ratios.sum()
    assert f"{scores['inside'].sum():.0f} of 16 intervals include the outcome" in done.stdout
