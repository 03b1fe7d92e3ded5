"""From stores with known ranks to tables, and the commands."""

import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import here, refused
from typer.testing import CliRunner

from rbp import metric
from rbp.cli.app import app
from rbp.errors import DataError, ParameterError
from rbp.extract.store import Store, find_place, open_store, sealed
from rbp.measurements import COLUMNS, open_source, select
from rbp.measurements.counts import store_table
from rbp.measurements.query import query
from rbp.measurements.ranked import Ranked

VOCABULARY = 1000


@pytest.fixture
def make(tmp_path):
    """make(model, size, ...): a finished store of random ranks, as rbp extract would have left it."""

    def make(model="m", size=10, dataset="d", seed=0, finished=True, **key):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 60, 20)
        total = int(lengths.sum())
        greater = np.minimum(rng.geometric(0.05, total) - 1, VOCABULARY - 3)
        columns = {
            "document": np.repeat(np.arange(20), lengths),
            "position": np.concatenate([np.arange(1, n + 1) for n in lengths]),
            "token": rng.integers(0, VOCABULARY, total),
            "greater": greater,
            "equal": rng.integers(1, 3, total),
            "nll": rng.exponential(3, total).astype(np.float32),
        }
        key = {"of": model, "seed": seed, "dtype": "float32", "device": "cpu", "protocol": {"name": "windows"}, **key}
        found = find_place(tmp_path / "ranks", model, key)
        about = {"model": model, "dataset": dataset, "family": "f", "size": size, "vocabulary": VOCABULARY}
        found.begin(key, about, 2, total)
        cut = lengths[:9].sum()
        for pack, rows in enumerate((slice(0, cut), slice(cut, None))):
            found.write(pack, {name: column[rows] for name, column in columns.items()})
        if finished:
            found.finish({})
        return found.folder, pd.DataFrame(columns)

    return make


def test_the_measurement_table(make):
    folder, tokens = make()
    table = open_source(folder).table
    ranks = tokens["greater"] + tokens["equal"]
    for row in table[table["metric"] == "neg_log_rbp"].itertuples():
        assert row.hits == (ranks <= row.k).sum()
        assert row.value == pytest.approx(-np.log((ranks <= row.k).mean()), rel=1e-12, abs=1e-12)
        assert row.tokens == len(tokens)
    entropy = table[table["metric"] == "cross_entropy"]["value"].item()
    assert entropy == pytest.approx(tokens["nll"].astype(float).mean())
    assert {1, 10, 100, 1000} <= set(table["k"].dropna())
    assert table["k"].max() == VOCABULARY
    assert tuple(table.columns) == COLUMNS
    for rule in ("paper", "strict", "expected"):
        ranks = metric.rank(tokens["greater"], tokens["equal"], rule)
        at_5 = select(open_source(folder, rule).table, metric="neg_log_rbp", k=5)["hits"].item()
        assert at_5 == (ranks <= 5).sum()


def test_a_folder_of_stores_joined_with_a_file(make, tmp_path):
    make("small", 10, seed=1)
    make("large", 20, seed=2)
    own = tmp_path / "own.csv"
    pd.DataFrame([{"dataset": "d", "model": "x", "family": "f", "size": 5, "metric": "cross_entropy", "k": None,
                   "value": 1.0}]).to_csv(own, index=False)  # fmt: skip
    both = open_source([tmp_path / "ranks", own])
    assert set(both.table["model"]) == {"small", "large", "x"}
    with pytest.raises(DataError, match=r"this source has no counts of windows \(.*own\.csv\)"):
        _ = both.windows
    assert set(open_source(tmp_path / "ranks").windows["model"]) == {"small", "large"}


def test_what_cannot_be_loaded(make, tmp_path):
    folder, _ = make("m", seed=1)
    other, _ = make("m", seed=2)
    with pytest.raises(DataError, match="m on d is in two stores"):
        _ = open_source(tmp_path / "ranks").table
    unfinished, _ = make("n", finished=False)
    next((other / "parts").iterdir()).unlink()
    (tmp_path / "empty").mkdir()
    for place, message in (
        (other, r"damaged.*missing"),
        (unfinished, "not finished"),
        (tmp_path / "empty", "no rank store"),
    ):
        with pytest.raises(DataError, match=message):
            _ = open_source(place).table
    with pytest.raises(ParameterError, match="k = 1001"):
        store_table(Ranked(open_store(folder)), [1, 1001])
    begun = find_place(tmp_path / "ranks", "z", {"z": 1})
    begun.begin({"z": 1}, {"model": "z", "dataset": "d", "family": "f", "size": 1, "vocabulary": 9}, 1, 1)
    with pytest.raises(DataError, match="pack 0 is missing"):
        begun.finish({})


@pytest.mark.parametrize(
    ("entry", "value"),
    [("parts", None), ("parts", {"a": 1}), ("parts", {"../a": {"sha256": "", "rows": 1}}), ("key", 3), ("tokens", 1)],
)
def test_a_manifest_with_wrong_entries(make, entry, value):
    folder, _ = make()
    path = folder / "manifest.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | {entry: value})))
    with pytest.raises(DataError, match="altered, or is damaged"):
        open_store(folder)
    assert "altered, or is damaged" in invoke("ranks", "list", folder)


def test_query(make, tmp_path):
    small, few = make("small", 10, seed=1)
    large, _ = make("it's large", 20, seed=1, other=True)
    stores = [open_store(small), open_store(large)]
    sql = """
        SELECT a.document, a.position FROM ranks a JOIN ranks b USING (dataset, document, position)
        WHERE a.size = (SELECT max(size) FROM stores) AND b.size = (SELECT min(size) FROM stores)
          AND a.rank = 1 AND b.rank < 3
        ORDER BY ALL"""
    first = few["greater"] + few["equal"] == 1  # both stores hold the same ranks
    expected = few[first][["document", "position"]].reset_index(drop=True)
    assert len(expected) > 0
    assert query(stores, sql).astype(int).equals(expected.astype(int))
    for sql, message in (
        ("SELECT nothing FROM ranks", "nothing"),
        ("selec 1", "syntax error"),
        *((sql, "not one question") for sql in ("", ";", "SELECT 1; SELECT 2", "DROP VIEW ranks")),
        (f"COPY (SELECT 1) TO '{tmp_path}/x.csv'", "not one question"),
    ):
        with pytest.raises(ParameterError, match=message):
            query(stores, sql)
    assert not (tmp_path / "x.csv").exists()


def invoke(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=True)
    if isinstance(result.exception, Exception):
        raise result.exception
    return result.stdout


def test_ranks_commands(make, tmp_path):
    folder, tokens = make("m", 1234)
    assert "S = 1,234" in invoke("ranks", "list", tmp_path / "ranks")
    assert "whole" in invoke("ranks", "check", folder)
    summary = tmp_path / "summary.csv"
    invoke("ranks", "summary", folder, "--k", "all", "--out", summary)
    loaded, ranks = open_source(summary).table, tokens["greater"] + tokens["equal"]  # what is written can be loaded
    assert loaded["k"].dropna().tolist() == [k for k in range(1, 1001) if (ranks <= k).any()]
    assert invoke("ranks", "summary", folder, "--k", "1, 10").count("\n") == 4
    invoke("ranks", "summary", folder, "--k", "5", "--intervals", "--out", summary)
    row = pd.read_csv(summary).iloc[0]
    assert row["low"] < row["value"] < row["high"]
    assert row["document_low"] < row["value"] < row["document_high"]
    invoke("ranks", "export", folder, "--out", tmp_path / "tokens.parquet")
    assert pd.read_parquet(tmp_path / "tokens.parquet").astype("float64").equals(tokens.astype("float64"))
    assert invoke("ranks", "query", "SELECT count(*) AS n FROM ranks", "--stores", folder) == f"n\n{len(tokens)}\n"
    for arguments, message in (
        (("summary", folder, "--k", "1001"), "1001"),
        (("summary", folder, "--k", "ten"), "no thresholds"),
        (("summary", folder, "--tie-rule", "other"), "tie rule"),
        (("export", folder, "--out", tmp_path / "x.txt"), "cannot write"),
    ):
        with pytest.raises(ParameterError, match=message):
            invoke("ranks", *arguments)
    part = next((folder / "parts").iterdir())
    part.write_bytes(b"")
    with pytest.raises(DataError, match="truncated or altered"):
        invoke("ranks", "check", folder)
    with pytest.raises(DataError, match="no rank store"):
        invoke("ranks", "list", tmp_path / "none")


def test_rbp_per_document_and_bits_per_byte(make, tmp_path):
    """By hand, of the tokens; a store that was made without bytes has none, and what is written can be loaded."""
    folder, tokens = make()
    summary = tmp_path / "summary.csv"

    def summed():
        invoke("ranks", "summary", folder, "--k", "5", "--out", summary)
        return pd.read_csv(summary).set_index("metric")

    rows = summed()
    shares = [float(np.mean(own["greater"] + own["equal"] <= 5)) for _, own in tokens.groupby("document")]
    assert rows["macro_rbp"]["neg_log_rbp"] == pytest.approx(sum(shares) / len(shares), rel=1e-12)
    assert rows["bits_per_byte"].isna().all()
    with_bytes = Store(folder)
    with_bytes.relabel({**with_bytes.manifest["about"], "bytes": 777})
    rows = summed()
    bits = math.fsum(tokens["nll"].astype(float)) / math.log(2) / 777
    assert rows["bits_per_byte"]["cross_entropy"] == pytest.approx(bits, rel=1e-6)
    assert rows["macro_rbp"].isna()["cross_entropy"]
    assert len(open_source(summary).table) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "none.jsonl"], "no such file"),
        (["--corpus", "c.txt", "--model", "./none"], "no such model folder"),
        (["--corpus", "c.txt", "--tokens", "-3"], "tokens must be at least 1"),
        (["--corpus", "c.txt", "--protocol", "all"], "unknown protocol"),
        (["--corpus", "c.txt", "--vocab", "some"], "unknown vocabulary"),
        (["--corpus", "c.txt", "--batch", "0"], "at least 1 row"),
        (["--corpus", "c.txt", "--shard", "1of2"], "no shard"),
        (["--corpus", "c.txt", "--round-logits", "int8"], "cannot round"),
    ],
)
def test_extract_says_what_is_wrong(saved, tmp_path, arguments, message):
    (tmp_path / "c.txt").write_text("some text")
    model = [] if "--model" in arguments else ["--model", str(saved("gpt2"))]
    refused(here("extract", *model, *arguments, "--out", "out", cwd=tmp_path), message)
    assert not (tmp_path / "out").exists()


def test_reading_needs_no_torch_and_says_nothing_after_its_answer(make):
    """Whatever Python has looked for garbage among, as it does when more is made than here."""
    folder, tokens = make("m", 1234)
    code = (
        "import atexit, gc, sys; gc.set_threshold = lambda *_: None; from rbp.cli import main\n"
        "atexit.register(lambda: print('torch' in sys.modules)); main()"
    )
    command = [sys.executable, "-c", code, "ranks", "query", "SELECT count(*) AS n FROM ranks", "--stores", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"n\n{len(tokens)}\nFalse\n", "")
