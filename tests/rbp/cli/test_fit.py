"""`rbp fit FILE`: groups, and forecasts that say what they suppose."""

import json

import pandas as pd
import pytest
from commands import here, refused

from rbp.laws.power import fit_power_law

SIZES = (1e6, 4e6, 2e7, 1e8, 3e8)


def entropy(i, family):
    return 3 + i * i / 9 - i + 0.1 * (family == "G")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rows = [
        f"{family}{i},{family},{text},{size},{entropy(i, family)},{share + 0.1 * i}"
        for text in ("web", "code")
        for family, share in (("F", 0.2), ("G", 0.25))
        for i, size in enumerate(SIZES)
    ]
    path = tmp_path_factory.mktemp("fit") / "mine.csv"
    path.write_text("\n".join(["model,family,dataset,params,loss,acc@5", *rows]))
    return path


def test_each_group_has_its_law(file, tmp_path):
    done = here("fit", str(file))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 * 2 * 2
    assert here("fit", str(file), "--out", str(tmp_path / "laws.csv")).returncode == 0
    laws = pd.read_csv(tmp_path / "laws.csv")
    assert len(laws) == len(laws[["dataset", "family", "metric"]].drop_duplicates()) == 8
    for family, rows in laws[laws["metric"] == "cross_entropy"].groupby("family"):
        expected = fit_power_law(SIZES, [entropy(i, family) for i in range(5)])
        assert rows["alpha"].tolist() == pytest.approx([expected.alpha] * 2)
    chosen = here("fit", str(file), "--dataset", "web", "--family", "F", "--k", "5", "--json")
    assert json.loads(chosen.stdout)["n"] == 5
    refused(here("fit", str(file), "--at", "1e9"), "there are 8 laws to fit", "--dataset", "cross-entropy of F on code")


@pytest.mark.parametrize(("size", "floor", "slip"), [(1e8, False, False), (3e9, True, False), (3e13, True, True)])
def test_a_forecast_says_what_it_supposes(file, size, floor, slip, caplog):
    done = here("fit", str(file), "--dataset", "web", "--family", "F", "--k", "5", "--at", str(size))
    assert ("if there is no floor" in done.stdout) == floor
    assert ("in thousands, millions or billions?" in caplog.text) == slip
