"""Checkpoints and texts at the door: which measurements are one, which are several, and which of them is meant."""

import logging

import numpy as np
import pandas as pd
import pytest
from commands import here, refused
from toy_stores import make_store

from companion.project import LADDER
from rbp.errors import DataError
from rbp.measurements import COLUMNS, open_source
from rbp.measurements.checkpoints import amount, names_in_time, runs

HEAD = "dataset,model,family,size,metric,k,value"


def way(length=512, name="windows", tokens=None):
    return {"name": name, "length": length, "context": None, "documents": None, "tokens": tokens}


@pytest.fixture
def store(tmp_path):
    made = iter(range(100))

    def make(model="a", text="one", length=512, dataset="mine", budget=None, dtype="float32", **options):
        key = {"corpus": {"sha256": text}, "protocol": way(length, tokens=budget), "dtype": dtype}
        folder, read = tmp_path / "ranks" / f"s{next(made)}", min(4, budget or 4)
        greater = [0, 1, 2, length % 7][:read]
        return make_store(folder, greater, [read], model=model, dataset=dataset, key=key, **options)

    return make


def ranks(tmp_path):
    return open_source(tmp_path / "ranks")


def test_a_model_may_be_there_at_several_steps(store, tmp_path):
    """The first thing that was seen: two checkpoints of one model on one text."""
    for model, size in (("a", 10), ("b", 30), ("c", 90)):
        for step in (1000, 8000):
            store(model, size=size, revision=f"step{step}", step=step, training_tokens=step * 64)
    source = ranks(tmp_path)
    own = source.checkpoints
    assert tuple(own.columns) == COLUMNS
    assert set(own["model"]) == {"a", "b", "c"}
    assert set(own["family"]) == {"Toy"}
    first = own[(own["model"] == "b") & (own["k"] == 1)]
    assert first["training_tokens"].tolist() == [64_000, 512_000]
    assert first["compute"].tolist() == [6 * 30 * 64_000, 6 * 30 * 512_000]
    # chapters, which know of sizes alone, see a family for each time in training, and no model twice
    table = source.table
    assert set(table["family"]) == {"Toy", f"Toy at {amount(64_000)}"}
    assert {f"{m}@step{s}" for m in "abc" for s in (1000, 8000)} == set(table["model"])
    assert not table.duplicated(["dataset", "model", "metric", "k"]).any()
    assert {(s.family, s.model) for s in source.stores} == set(zip(table["family"], table["model"], strict=True))
    assert set(source.windows["model"]) == set(table["model"])
    assert len({one.model for one in source.histograms}) == 6


def test_a_model_of_two_sizes_is_refused_with_its_stores_and_the_command(store, tmp_path):
    store("a", size=10)
    store("a", size=11, dataset="other")
    with pytest.raises(DataError, match="a is given as Toy of size 10 and as Toy of size 11") as refused:
        _ = ranks(tmp_path).table
    assert "ranks s0; ranks s1" in refused.value.where
    assert "rbp ranks rename STORE --family" in refused.value.remedy


def test_two_ways_of_reading_a_text_do_not_collide(store, tmp_path, caplog):
    """The second: `extract --length 512` of one model, then `law` of three at 256, in one folder."""
    for model, size in (("a", 10), ("b", 30), ("c", 90)):
        store(model, size=size, length=256)
    store("a", size=10, length=512)
    with caplog.at_level(logging.WARNING):
        found = ranks(tmp_path).stores
    assert [one.protocol["length"] for one in found] == [256] * 3
    assert "windows of 256 tokens" in caplog.text
    assert [one.model for one in open_source(tmp_path / "ranks", length=512).stores] == ["a"]
    store("b", size=30, length=512)
    store("c", size=90, length=512)
    with pytest.raises(DataError, match="several ways") as refused:
        _ = ranks(tmp_path).stores
    assert "--protocol windows --length 256" in refused.value.remedy
    assert "rbp ranks rm" in refused.value.remedy
    assert len(open_source(tmp_path / "ranks", protocol="windows", length=256).stores) == 3
    with pytest.raises(DataError, match="no ranks by 7"):
        _ = open_source(tmp_path / "ranks", length=7).stores


def test_of_two_budgets_the_one_that_ranked_most_is_taken(store, tmp_path, caplog):
    """`rbp extract` of a text, then `rbp law` of it, which has a budget: in other things they are alike."""
    for model, size in (("a", 10), ("b", 30), ("c", 90)):
        store(model, size=size, budget=3)
        store(model, size=size)
    with caplog.at_level(logging.WARNING):
        found = ranks(tmp_path).stores
    assert [one.tokens for one in found] == [4] * 3
    assert "read in several ways; taken is one of all models: windows of 512 tokens, float32" in caplog.text
    store("a", size=10, budget=3, dtype="bfloat16")
    assert [one.tokens for one in ranks(tmp_path).stores] == [4] * 3
    for model, size in (("b", 30), ("c", 90)):
        store(model, size=size, budget=3, dtype="bfloat16")
    with pytest.raises(DataError, match="bfloat16") as refused:
        _ = ranks(tmp_path).stores
    assert "Say which" not in refused.value.remedy  # no option tells dtypes apart


@pytest.mark.parametrize("other", [{"length": 256}, {"budget": 3}])
def test_a_family_that_did_not_read_a_text_alike_is_said(store, tmp_path, caplog, other):
    store("a", size=10)
    store("b", size=30, **other)
    store("c", size=90, **other, family="Other")
    with caplog.at_level(logging.WARNING):
        _ = ranks(tmp_path).table
    assert "the models of Toy did not read mine alike" in caplog.text
    assert "models of Other" not in caplog.text
    assert "4 tokens ranked (a); " in caplog.text


def test_stores_given_one_by_one_are_chosen_together(store, tmp_path):
    folders = [store(model, size=10 * i, length=256).folder for i, model in enumerate("abc", 1)]
    folders.append(store("a", size=10, length=512).folder)
    assert len(open_source(folders).stores) == 3
    assert open_source(folders).name == ", ".join(map(str, folders))


def test_texts_of_one_name_are_two_datasets(store, tmp_path):
    one, other = store(text="one"), store(text="other")
    assert one.text != other.text
    assert set(ranks(tmp_path).table["dataset"]) == {f"mine-{one.text}", f"mine-{other.text}"}
    assert {s.dataset for s in ranks(tmp_path).stores} == {f"mine-{one.text}", f"mine-{other.text}"}


def test_one_measurement_twice_is_refused_with_the_command_that_helps(store, tmp_path):
    first, second = store(), store(step=3)  # of one of them nothing is known: they may be the same
    with pytest.raises(DataError, match="a on mine is in two stores") as refused:
        _ = ranks(tmp_path).table
    assert {str(first.folder), str(second.folder)} == set(refused.value.where.split("; "))
    assert "rbp ranks rm" in refused.value.remedy
    assert "rbp ranks rename" in refused.value.remedy


def test_an_old_store_reads_as_before(tmp_path):
    shipped = LADDER / "families-ranks" / "neox"
    table = open_source(shipped).table
    assert table[["revision", "training_tokens", "step", "seed", "compute"]].isna().all(axis=None)
    assert set(table["family"]) == {"neox"}
    assert set(table["dataset"]) == {"wikipedia", "humaneval", "hotpotqa", "auslegal"}


def test_the_ladders_models_are_checkpoints_of_their_families():
    own = open_source("ladder:all").checkpoints
    grid = own[(own["family"] == "neox") & (own["k"] == 1) & (own["dataset"] == "wikipedia")]
    assert grid.groupby("size")["training_tokens"].nunique().eq(5).all()
    assert set(open_source("ladder:all").table.query("training_tokens == 500_000")["family"]) == {
        "neox at 0.5 M",
        "lstm at 0.5 M",
    }
    with pytest.raises(DataError, match="in two sources"):
        _ = open_source("ladder, ladder:all").checkpoints


def write(tmp_path, rows, head=f"{HEAD},step,training_tokens,revision,seed"):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("revisions", "families"),
    [
        (("step10", "step80"), {"F", "F at step 10"}),
        (("main", "early"), {"F at main", "F at early"}),
    ],
)
def test_checkpoints_that_their_revisions_alone_tell_apart_are_no_models_of_one_law(tmp_path, revisions, families):
    rows = [f"t,m{i},F,{10**i},neg_log_rbp,1,{2 - i / 4},{name}" for i in range(3) for name in revisions]
    source = open_source(write(tmp_path, rows, f"{HEAD},revision"))
    assert set(source.table["family"]) == families
    assert source.table.groupby("family")["size"].nunique().eq(3).all()
    assert set(source.checkpoints["step"].dropna()) == ({10, 80} if "step10" in revisions else set())


def test_a_step_that_is_not_the_revisions_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"revision's name says .*line 2"):
        _ = open_source(write(tmp_path, ["t,m,F,100,neg_log_rbp,1,2,20,,step10,"])).table


def test_a_table_with_checkpoints_and_one_without(tmp_path):
    rows = [f"t,m,F,100,neg_log_rbp,1,{2 - i / 4},{step},{step * 8},," for i, step in enumerate((10, 20, 40))]
    table = open_source(write(tmp_path, rows)).checkpoints
    assert table["compute"].tolist() == [600 * 80, 600 * 160, 600 * 320]
    given = write(tmp_path, ["t,m,F,100,neg_log_rbp,1,2,5"], f"{HEAD},compute")
    assert open_source(given).checkpoints["compute"].tolist() == [5.0]
    first = write(
        tmp_path, [f"t,m,F,100,neg_log_rbp,1,{3 - s},{s},{64 * s}" for s in (0, 1)], f"{HEAD},step,training_tokens"
    )
    assert open_source(first).checkpoints["training_tokens"].tolist() == [0, 64]
    old = open_source(write(tmp_path, ["t,m,F,100,neg_log_rbp,1,2"], HEAD)).table
    assert old[["step", "training_tokens", "revision", "seed", "compute"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1,2,-5,8,,"], "step -5 must not be negative"),
        (["1,2,5,-8,,"], "training_tokens -8 must not be negative"),
        (["1,2,5,4,,"], "training_tokens do not fit step"),
        (["1,2,0,5,,"], "training_tokens do not fit step"),
        (["1,2,5,50,,", "1,1,7,,,"], "training_tokens of m is known of one checkpoint, and missing for another"),
        (["1,2,5,50,,", "1,1,5,60,,"], "training_tokens 50 at step 5 and 60 at step 5"),
        (["1,2,5,50,,", "1,1,7,40,,"], "training_tokens 50 at step 5 and 40 at step 7"),
        (["1,2,5,50,r,", "1,1,7,70,r,"], "step 5 at revision r and 7 at revision r"),
        (["1,2,5,50,,", "1,2,5,50,,"], "the row repeats"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(tmp_path, rows, words):
    with pytest.raises(DataError, match=words):
        _ = open_source(write(tmp_path, [f"t,m,F,100,neg_log_rbp,{row}" for row in rows])).table


def test_seeds_are_runs_of_their_own(tmp_path):
    rows = [f"t,m,F,100,neg_log_rbp,1,2,{step},{step * 8},,{seed}" for seed in (0, 1) for step in (10, 20)]
    table = open_source(write(tmp_path, rows)).table
    assert set(table["model"]) == {"m@step10", "m@step20", "m@step10-seed1", "m@step20-seed1"}


@pytest.mark.parametrize(("tokens", "words"), [(500_000, "0.5 M"), (299_892_736_000, "299.9 B"), (18e12, "18 T")])
def test_amounts_in_words(tokens, words):
    assert amount(tokens) == words


def test_names_stay_where_nothing_is_known_or_nothing_recurs():
    table = open_source("published").table
    assert np.array_equal(table["family"].unique(), open_source("published").checkpoints["family"].unique())
    pd.testing.assert_frame_equal(table, open_source("published").checkpoints)


def test_run_says_which_way_it_takes_and_refuses_before_it_starts(store, tmp_path, monkeypatch, caplog):
    """Two stores that collide stop `rbp run` at once, with the command that helps."""
    monkeypatch.setattr("companion.run.execute", lambda *arguments, **options: 0.0)
    asked = ("run", "holds", "-p", f"measurements={tmp_path / 'ranks'}", "--out", str(tmp_path / "out"))
    for model, size in (("a", 10), ("b", 30), ("c", 90)):
        store(model, size=size, length=256)
    store("a", size=10, length=512)
    with caplog.at_level(logging.WARNING):
        assert here(*asked).returncode == 0
    assert "windows of 256 tokens" in caplog.text
    store("b", size=30, length=256)
    refused(here(*asked), "in two stores", "rbp ranks rm")


def test_a_run_is_named_by_its_model_or_by_its_size_where_each_time_has_a_name() -> None:
    rows = [("of/a", "A", 7, pd.NA), ("of/a", "A", 7, pd.NA), ("b-at-1", "B", 4000, 0), ("b-at-2", "B", 4000, 0)]
    rows += [("c", "B", 4000, 2), ("c", "B", 4000, 2)]
    table = pd.DataFrame(rows, columns=["model", "family", "size", "seed"]).astype({"seed": "Int64"})
    assert runs(table).tolist() == ["a", "a", "B of 4,000", "B of 4,000", "c-seed2", "c-seed2"]


@pytest.fixture
def weighed(tmp_path):
    """weighed(model, weights): a store of a model with these weights."""
    made = iter(range(100))

    def make(model, weights, greater=(0, 1, 2, 7), size=1000, **options):
        key = {"corpus": {"sha256": "one"}, "protocol": way(), "dtype": "float32", "weights": weights}
        key |= options.pop("key", {})
        folder = tmp_path / "ranks" / f"s{next(made)}"
        return make_store(
            folder, [*greater], [len(greater)], model=model, dataset="mine", key=key, size=size, **options
        )

    return make


def test_copies_of_a_checkpoint_are_no_checkpoints(weighed, tmp_path, caplog):
    """Which of the steps they are is not known: the law against steps goes without all of them."""
    for step, weights in ((1, "a"), (100, "b"), (200, "b"), (300, "b"), (400, "c")):
        weighed("run", weights, step=step)
    table = ranks(tmp_path).checkpoints
    assert sorted({*table["step"]}) == [1, 400]
    assert "run@step100, run@step200, run@step300 are copies of one another" in caplog.text


def test_all_copies_is_refused(weighed, tmp_path):
    for step in (100, 200):
        weighed("run", "b", step=step)
    with pytest.raises(DataError, match="all that is measured are copies"):
        _ = ranks(tmp_path).table


def test_one_model_by_two_names_counts_once(weighed, tmp_path, caplog):
    """As main and its last step are one, in Pythia."""
    weighed("a", "x", revision="main", step=1000, training_tokens=64_000)
    weighed("a", "x", revision="step1000", step=1000, training_tokens=64_000)
    weighed("b", "y", size=30)
    weighed("copy-of-b", "y", size=30)
    source = ranks(tmp_path)
    assert [store.model for store in source.stores] == ["b", "a"]
    assert "b, copy-of-b are copies of one another: the first stays" in caplog.text


def test_one_imported_file_is_not_two_sizes(weighed, tmp_path, caplog):
    for model, size in (("A", 10), ("B", 20)):
        weighed(model, None, size=size, key={"imported": "f"})
    weighed("C", None, size=40, key={"imported": "g"})
    assert [store.model for store in ranks(tmp_path).stores] == ["C"]
    assert "A, B are copies of one another, and cannot all be what they are called" in caplog.text


def test_seeds_that_begin_with_the_same_weights_are_one_run(weighed, tmp_path, caplog):
    for seed, first in ((0, "zero"), (1, "zero"), (2, "two")):
        weighed("run", first, seed=seed, step=0)
        weighed("run", f"last of {seed}", seed=seed, step=100)
    assert {*ranks(tmp_path).checkpoints["seed"]} == {0, 2}
    assert "they are no independent runs" in caplog.text


def test_copies_among_rows_are_no_models(tmp_path, caplog):
    """As copies among stores: by all values of a model on a dataset, in more digits than chance repeats."""

    def rows(model, size, values, more=""):
        ks = ("neg_log_rbp,1", "neg_log_rbp,10", "neg_log_rbp,100", "cross_entropy,")
        pairs = zip(ks, values, strict=False)
        return [f"{text},{model},F,{size},{k},{value}{more}" for text in ("t", "u") for k, value in pairs]

    some, other = (1.234, 0.512, 0.243, 3.5), (1.234, 0.512, 0.244, 3.5)
    path = tmp_path / "some.csv"
    path.write_text("\n".join([HEAD, *rows("a", 10, some), *rows("b", 20, some), *rows("c", 30, other)]))
    assert {*open_source(path).table["model"]} == {"c"}
    assert "on t, a, b are copies of one another, and cannot all be what they are called: left out" in caplog.text
    path.write_text("\n".join([HEAD, *rows("a", 10, some), *rows("a-again", 10, some), *rows("c", 30, other)]))
    assert {*open_source(path).table["model"]} == {"a", "c"}
    path.write_text("\n".join([HEAD, *rows("a", 10, (1.2, 0.5)), *rows("b", 20, (1.2, 0.5))]))
    assert {*open_source(path).table["model"]} == {"a", "b"}  # two short numbers may be equal
    steps = [(100, 3.1234567891), (200, 3.1234567891), (300, 3.0234567891)]
    lines = [f"t,run,F,10,cross_entropy,,{value},{step}" for step, value in steps]
    path.write_text("\n".join([f"{HEAD},step", *lines]))
    assert open_source(path).checkpoints["step"].tolist() == [300]
    path.write_text("\n".join([f"{HEAD},step", *lines[:2]]))
    with pytest.raises(DataError, match="all that is measured are copies") as error:
        _ = open_source(path).table
    assert "some.csv" in str(error.value)


def test_windows_that_begin_otherwise_are_not_mixed(weighed, tmp_path):
    weighed("a", "x", size=10)
    weighed("b", "y", size=20, key={"bos": ["<s>"]})
    with pytest.raises(DataError, match="a with nothing, b with <s>") as error:
        _ = ranks(tmp_path).table
    assert "--bos" in error.value.remedy


def test_a_family_is_not_one_whose_name_begins_like_its(tmp_path):
    lines = [
        f"mine,{name}{size},{name},{size},cross_entropy,,{3 - size / 100}"
        for name in ("A at home",)
        for size in (10, 20)
    ]
    (tmp_path / "t.csv").write_text("\n".join([HEAD, *lines]))
    refused(here("law", "t.csv", "--family", "A", cwd=tmp_path), "there is no family 'A'", "A at home")
    rows = [
        f"mine,a{size},A,{size},cross_entropy,,{4 - t / 10**7 - size / 100},{t}"
        for size in (10, 20)
        for t in (10**6, 2 * 10**6)
    ]
    table = tmp_path / "times.csv"
    table.write_text("\n".join([f"{HEAD},training_tokens", *rows, *(f"{line},1000000" for line in lines)]))
    assert names_in_time(open_source(table).checkpoints, "A") == {"A", "A at 1 M"}


def test_other_columns_of_a_table_are_ignored(tmp_path, caplog):
    table = tmp_path / "t.csv"
    table.write_text(f"{HEAD},Notes,token\nmine,a,A,10,cross_entropy,,3,mine own,7\n")
    assert len(open_source(table).table) == 1
    assert "columns are ignored: Notes, token" in caplog.text
