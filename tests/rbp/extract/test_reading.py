"""From stores with known ranks to tables, and the commands that read, remove and rename them."""

import io
import math

import numpy as np
import pandas as pd
import pytest
from commands import here, refused
from toy_stores import make_store

from rbp.errors import DataError
from rbp.measurements import open_source
from rbp.store import Store, open_store


@pytest.fixture
def make(tmp_path):
    """make(seed): the folder of a store of random ranks, and these."""

    def make(seed=0):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 60, 20)
        greater = np.minimum(rng.geometric(0.05, lengths.sum()) - 1, 997)
        columns = {"equal": rng.integers(1, 3, len(greater)), "nll": rng.exponential(3, len(greater))}
        about = {"model": "m", "dataset": "d", "family": "f", "size": 1234, "vocabulary": 1000}
        key = {"dtype": "float32", "device": "cpu", "protocol": {"name": "windows"}, "corpus": {"sha256": "d"}}
        store = make_store(tmp_path / "ranks" / f"m-{seed}", greater, lengths, key=key, **about, **columns)
        return store.folder, store.ranks()

    return make


def test_what_cannot_be_loaded(make, tmp_path):
    folder, _ = make()
    make(seed=1)
    with pytest.raises(DataError, match="m on d is in two stores"):
        _ = open_source(folder.parent).table
    Store(tmp_path / "begun").begin({}, {"model": "n", "dataset": "d"}, 2, 9)
    with pytest.raises(DataError, match="not finished"):
        _ = open_source(tmp_path / "begun").table


def ranks_command(*arguments):
    done = here("ranks", *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_store_is_listed_summarized_and_exported(make, tmp_path):
    folder, tokens = make()
    assert "S = 1,234" in ranks_command("list", tmp_path / "ranks")
    summary, ranks = tmp_path / "summary.csv", tokens["greater"] + tokens["equal"]
    ranks_command("summary", folder, "--k", "all", "--out", summary)
    loaded = open_source(summary).table  # what is written can be loaded
    assert loaded["k"].dropna().tolist() == [k for k in range(1, 1001) if (ranks <= k).any()]
    for row in loaded[loaded["metric"] == "neg_log_rbp"].itertuples():
        assert row.value == pytest.approx(-np.log((ranks <= row.k).mean()), rel=1e-12, abs=1e-12)
    ranks_command("export", folder, "--out", tmp_path / "tokens.parquet")
    assert pd.read_parquet(tmp_path / "tokens.parquet").astype("float64").equals(tokens.astype("float64"))
    refused(here("ranks", "summary", str(folder), "--k", "1001"), "1001")

    store = Store(folder)  # by hand, of the tokens
    store.relabel({**store.manifest["about"], "bytes": 777})
    ranks_command("summary", folder, "--k", "5", "--intervals", "--out", summary)
    rows = pd.read_csv(summary).set_index("metric")
    shares = [float(np.mean(own["greater"] + own["equal"] <= 5)) for _, own in tokens.groupby("document")]
    assert rows["macro_rbp"]["neg_log_rbp"] == pytest.approx(sum(shares) / len(shares), rel=1e-12)
    bits = math.fsum(tokens["nll"].astype(float)) / math.log(2) / 777
    assert rows["bits_per_byte"]["cross_entropy"] == pytest.approx(bits, rel=1e-6)
    row = rows.loc["neg_log_rbp"]
    assert row["low"] < row["value"] < row["high"]
    assert row["document_low"] < row["value"] < row["document_high"]


def test_a_store_is_removed_and_nothing_else(make, tmp_path, monkeypatch):
    (one, _), (other, _), (third, _) = map(make, (1, 2, 3))
    (one.parent / "notes.txt").write_text("mine")
    assert here("ranks", "rm", str(one), "--yes").returncode == 0
    for answer, code in (("n\n", 1), ("y\n", 0)):
        assert other.exists()
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert here("ranks", "rm", str(other)).returncode == code
    assert sorted(path.name for path in one.parent.iterdir()) == sorted([third.name, "notes.txt"])
    (third / "thesis.tex").write_text("mine")
    (tmp_path / "link").symlink_to(third)
    (tmp_path / "empty").mkdir()
    for folder in (third.parent, tmp_path / "link", tmp_path / "empty"):
        refused(here("ranks", "rm", str(folder), "--yes"))
    assert (third / "thesis.tex").is_file()
    assert open_store(third).ranks().size


def test_a_store_is_renamed(make, tmp_path):
    one, _ = make()
    before = open_store(one).ranks()
    done = here("ranks", "rename", str(one), "--model", "a/b", "--dataset", "poems", "--family", "Mine")
    store = open_store(done.stdout.strip())
    assert (store.model, store.dataset, store.family) == ("a/b", "poems", "Mine")
    assert store.folder.name == f"b-poems-{store.text}-{store.manifest['digest']}"
    assert store.ranks().equals(before)
    assert not one.exists()
