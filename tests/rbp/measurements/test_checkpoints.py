"""Checkpoints and texts at the door: which measurements are one, which are several, and which of them is meant."""

import logging
from itertools import count

import pytest
from toy_stores import make_store

from rbp.errors import DataError
from rbp.measurements import COLUMNS, open_source
from rbp.measurements.checkpoints import amount

HEAD = "dataset,model,family,size,metric,k,value"
SIZES = (("a", 10), ("b", 30), ("c", 90))


@pytest.fixture
def store(tmp_path):
    """store(model, weights, …): ranks of four tokens, or of the first `budget`, by windows of `length`."""
    made = count()

    def make(model="a", weights=None, *, text="one", length=512, dataset="mine", budget=None, key=None, **options):
        way = {"name": "windows", "length": length, "context": None, "documents": None, "tokens": budget}
        key = {"corpus": {"sha256": text}, "protocol": way, "dtype": "float32", "weights": weights, **(key or {})}
        greater = [0, 1, 2, length % 7][: budget or 4]
        folder = tmp_path / "ranks" / f"s{next(made):02}"
        return make_store(folder, greater, [len(greater)], model=model, dataset=dataset, key=key, **options)

    return make


@pytest.fixture
def ranks(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    return lambda **way: open_source(tmp_path / "ranks", **way)


def test_a_model_may_be_there_at_several_steps(store, ranks):
    for model, size in SIZES:
        for step in (1000, 8000):
            store(model, size=size, revision=f"step{step}", step=step, training_tokens=step * 64)
    source = ranks()
    own = source.checkpoints
    assert tuple(own.columns) == COLUMNS
    assert set(zip(own["model"], own["family"], strict=True)) == {("a", "Toy"), ("b", "Toy"), ("c", "Toy")}
    first = own[(own["model"] == "b") & (own["k"] == 1)]
    assert first["training_tokens"].tolist() == [64_000, 512_000]
    assert first["compute"].tolist() == [6 * 30 * 64_000, 6 * 30 * 512_000]
    # chapters, which know of sizes alone, see a family for each time in training, and no model twice
    table = source.table
    assert set(table["family"]) == {"Toy", f"Toy at {amount(64_000)}"}
    assert {f"{m}@step{s}" for m in "abc" for s in (1000, 8000)} == set(table["model"])
    assert not table.duplicated(["dataset", "model", "metric", "k"]).any()
    assert set(source.windows["model"]) == {one.model for one in source.histograms} == set(table["model"])


@pytest.mark.parametrize(
    ("other", "message", "remedy"),
    [
        ({"size": 1001, "dataset": "other"}, "a is given as Toy of size 1000 and as Toy of size 1001", "rename STORE"),
        ({"step": 3}, "a on mine is in two stores", "rbp ranks rm"),  # of one nothing is known: they may be the same
        ({"budget": 3}, "a on mine is in two stores, measured in several ways", "rbp ranks rm"),
        ({"model": "b", "size": 20, "key": {"bos": ["<s>"]}}, "a with nothing, b with <s>", "--bos"),
    ],
    ids=["two sizes", "twice", "two budgets", "windows that begin otherwise"],
)
def test_stores_that_do_not_fit_together_are_refused_with_the_command_that_helps(store, ranks, other, message, remedy):
    folders = [store().folder, store(**other).folder]
    with pytest.raises(DataError, match=message) as refused:
        _ = ranks().table
    assert remedy in refused.value.remedy
    assert "--bos" in remedy or all(folder.name in refused.value.where for folder in folders)


def test_of_two_ways_of_reading_one_must_be_named(store, ranks):
    """`extract --length 512` of one model, then of three at 256, in one folder."""
    for model, size in SIZES:
        store(model, size=size, length=256)
    store("a", size=10, length=512)
    with pytest.raises(DataError, match="measured in several ways") as refused:
        _ = ranks().stores
    assert "--protocol windows --length 256 or --protocol windows --length 512" in refused.value.remedy
    assert {one.protocol["length"] for one in ranks(length=256).stores} == {256}
    assert [one.model for one in ranks(protocol="windows", length=512).stores] == ["a"]


def test_copies_are_left_out_and_one_model_by_two_names_counts_once(store, ranks, caplog):
    """As main and its last step are one, in Pythia. Which of its steps three copies are is not known."""
    for step in (100, 200, 300):
        store("run", "z", step=step)
    with pytest.raises(DataError, match="all that is measured are copies"):
        _ = ranks().table
    for step, weights in ((1, "u"), (400, "v")):
        store("run", weights, step=step)
    for name in ("main", "step1000"):
        store("a", "x", revision=name, step=1000, training_tokens=64_000)
    for model in ("b", "copy-of-b"):
        store(model, "y", size=30)
    for seed in (0, 1):  # which begin with the same weights: one run
        store("s", "zero", seed=seed, step=0, size=50)
        store("s", f"last of {seed}", seed=seed, step=100, size=50)
    left = [store.model for store in ranks().stores if store.model[0] != "s"]
    assert left == ["b", "a", "run@step1", "run@step400"]
    rows = ranks().checkpoints
    assert sorted({*rows["step"].dropna()}) == [0, 1, 100, 400, 1000]
    assert {*rows["seed"].dropna()} == {0}
    assert "run@step100, run@step200, run@step300 are copies of one another" in caplog.text
    assert "they are not independent runs" in caplog.text


@pytest.fixture
def written(tmp_path):
    """written(rows, head): the source that is a file of these rows."""

    def write(rows, head=f"{HEAD},step,training_tokens,revision,seed"):
        (tmp_path / "mine.csv").write_text("\n".join([head, *rows]) + "\n")
        return open_source(tmp_path / "mine.csv")

    return write


@pytest.mark.parametrize(
    ("revisions", "families", "steps"),
    [(("step10", "step80"), {"F", "F at step 10"}, {10, 80}), (("main", "early"), {"F at main", "F at early"}, set())],
)
def test_checkpoints_that_their_revisions_alone_tell_apart_are_no_models_of_one_law(
    written, revisions, families, steps
):
    rows = [f"t,m{i},F,{10**i},neg_log_rbp,1,{2 - i / 4},{name}" for i in range(3) for name in revisions]
    source = written(rows, f"{HEAD},revision")
    assert set(source.table["family"]) == families
    assert set(source.checkpoints["step"].dropna()) == steps


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1,2,5,4,,"], "training_tokens do not fit step"),
        (["1,2,5,50,,", "1,1,7,50,,"], "m has training_tokens 50 at step 5 and 50 at step 7"),
        (["1,2,5,50,,", "1,2,5,50,,"], "the row repeats"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(written, rows, words):
    with pytest.raises(DataError, match=words):
        _ = written([f"t,m,F,100,neg_log_rbp,{row}" for row in rows]).table


def test_copies_among_rows_are_no_models(written):
    """As copies among stores: by all values of a model on a dataset, in more digits than chance repeats."""
    some, other = (1.234, 0.512, 0.243, 3.5), (1.234, 0.512, 0.244, 3.5)

    def left(*models):
        ks = ("neg_log_rbp,1", "neg_log_rbp,10", "neg_log_rbp,100", "cross_entropy,")
        rows = [
            f"{text},{model},F,{size},{k},{value}"
            for model, size, values in models
            for text in ("t", "u")
            for k, value in zip(ks, values, strict=False)
        ]
        return {*written(rows, HEAD).table["model"]}

    assert left(("a", 10, some), ("b", 20, some), ("c", 30, other)) == {"c"}
    assert left(("a", 10, some), ("a-again", 10, some), ("c", 30, other)) == {"a", "c"}
    assert left(("a", 10, (1.2, 0.5)), ("b", 20, (1.2, 0.5))) == {"a", "b"}  # two short numbers may be equal
