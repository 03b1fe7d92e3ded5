"""Security: no pickle is read, no code of others is run, and the served book listens on this machine alone.

Each trap leaves a trace, the canary, when it is sprung; `test_the_traps_are_real` springs them.
"""

import ast
import json
import pickle
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import tiny
import torch
from made_ladder import write_ladder
from toy_stores import make_store

from companion import results, steps
from companion.project import ROOT
from ladder.making import Making
from ladder.recipe import read_ladders
from ladder.training import Run
from ladder.workspace import STATE, Workspace
from rbp.errors import DataError, RbpError
from rbp.extract.corpora import open_corpus
from rbp.extract.extraction import Settings, extract
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store
from rbp.measurements import open_source


class Bomb:
    """A pickle that leaves the canary when it is read."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return Path.touch, (self.canary,)


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"


@pytest.fixture
def bomb(canary):
    return pickle.dumps(Bomb(canary))


@pytest.fixture
def copy(model, tmp_path):
    return Path(shutil.copytree(model, tmp_path / "model"))


def load_all(folder: Path) -> None:
    files = find_model(str(folder))
    load_tokenizer(files)
    load_model(files, "float32", torch.device("cpu"))


def test_the_traps_are_real(bomb, canary, tmp_path):
    pickle.loads(bomb)  # noqa: S301
    assert canary.exists()
    canary.unlink()
    torch.save({"weights": Bomb(canary)}, tmp_path / "weights.bin")
    torch.load(tmp_path / "weights.bin", weights_only=False)
    assert canary.exists()
    canary.unlink()
    np.save(tmp_path / "rows.npy", np.array([Bomb(canary)], dtype=object), allow_pickle=True)
    np.load(tmp_path / "rows.npy", allow_pickle=True)
    assert canary.exists()


WEIGHTS = ["pytorch_model.bin", "model.safetensors", "model.pt", "tf_model.h5", "flax_model.msgpack"]
TOKENIZERS = ["tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer.pkl", "tokenizer_config.json"]


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_pickle_as_weights(copy, bomb, canary, name):
    (copy / "model.safetensors").unlink()
    (copy / name).write_bytes(bomb)
    with pytest.raises(DataError):
        load_all(copy)
    assert not canary.exists()


def test_a_pickle_beside_weights_is_not_looked_at(copy, bomb, canary):
    (copy / "pytorch_model.bin").write_bytes(bomb)
    load_all(copy)
    assert not canary.exists()


def test_an_index_that_names_a_pickle(copy, bomb, canary):
    (copy / "model.safetensors").unlink()
    (copy / "pytorch_model.bin").write_bytes(bomb)
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        (copy / name).write_text(json.dumps({"metadata": {}, "weight_map": {"wte": "pytorch_model.bin"}}))
    with pytest.raises(DataError):
        load_all(copy)
    assert not canary.exists()


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("alone", [True, False])
def test_a_pickle_as_a_tokenizer_s_file(copy, bomb, canary, name, alone):
    if alone:
        (copy / "tokenizer.json").unlink()
    (copy / name).write_bytes(bomb)
    try:
        load_tokenizer(find_model(str(copy)))
    except DataError:
        pass
    else:
        assert name not in ("tokenizer.json", "tokenizer_config.json"), "beside a whole tokenizer, and not looked at"
    assert not canary.exists()


def test_pickles_in_the_place_of_what_was_kept(copy, bomb, canary, tmp_path, monkeypatch):
    """A part of a store, a table of a step, a training's state and rows, merged results: all caches of ours."""
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(3)))
    given = (
        [str(copy)],
        [corpus],
        protocol("windows", length=64, pack=1),
        tmp_path / "out",
        Settings(backend="reference"),
    )
    (folder,) = extract(*given)
    for part in (folder / "parts").iterdir():
        part.write_bytes(bomb)
    with pytest.raises(DataError, match="damaged"):
        open_store(folder).ranks()
    extract(*given)
    assert open_store(folder).problems() == []
    (folder / "manifest.json").write_bytes(bomb)
    with pytest.raises(DataError, match="cannot be read"):
        open_store(folder)

    monkeypatch.setenv(steps.TABLES, str(tmp_path))
    (tmp_path / "premise.parquet").write_bytes(bomb)
    with pytest.raises(DataError, match="cannot be read"):
        steps.table("premise")
    (tmp_path / "results.json").write_bytes(bomb)
    with pytest.raises(DataError):
        results.read_book(tmp_path / "results.json")

    write_ladder(tmp_path / "ladder")
    ladders, base = read_ladders(tmp_path / "ladder" / "ladders.toml")
    place = Workspace(tmp_path / "ladder" / "out")
    place.folder.mkdir()
    np.save(place / "rows.npy", np.array([Bomb(canary)], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        place.rows(base)
    making = Making(ladders, base, place)
    course = making.course(making.choose(["neox"], ["narrow"], [0])[0], None)
    (place / STATE).write_bytes(bomb)
    rows = np.zeros((course.steps * course.batch, base.text.context + 1), np.uint16)
    assert not Run(course, rows, place.folder).resume()
    assert not canary.exists()


@pytest.mark.parametrize("name", ["mine.parquet", "mine.csv", "mine.jsonl", "mine.jsonl.gz", "mine.txt"])
def test_a_pickle_as_measurements_or_as_a_corpus(bomb, canary, tmp_path, name):
    (tmp_path / name).write_bytes(bomb)
    for read_ in (lambda name: open_source(name).table, open_corpus):
        with pytest.raises(RbpError):
            read_(str(tmp_path / name))
    assert not canary.exists()


def test_a_pickle_in_the_description_of_a_parquet_file(bomb, canary, tmp_path):
    """Arrow once kept Python's own types as pickles in a file's schema, and read them."""
    about = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": bomb}
    table = arrow.table(
        [arrow.array(["some text"])], arrow.schema([arrow.field("text", arrow.string(), metadata=about)])
    )
    parquet.write_table(table.replace_schema_metadata({b"pandas": bomb}), tmp_path / "mine.parquet")
    open_corpus(str(tmp_path / "mine.parquet"))
    with pytest.raises(DataError):
        _ = open_source(str(tmp_path / "mine.parquet")).table
    assert not canary.exists()


@pytest.mark.parametrize("own_type", [True, False])
def test_code_that_comes_with_a_model_is_not_run(copy, canary, own_type):
    """By its configuration or its tokenizer's; where transformers knows the type itself, it takes its own code."""
    trap = f"import pathlib\npathlib.Path({str(canary)!r}).touch()\nclass Config: pass\nclass Model: pass\n"
    for name in ("own.py", "configuration_own.py", "modeling_own.py", "tokenization_own.py", "__init__.py"):
        (copy / name).write_text(trap)
    auto = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model", "AutoModel": "own.Model"}
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(
        json.dumps(
            {**config, "auto_map": auto} | ({"model_type": "own", "architectures": ["Model"]} if own_type else {})
        )
    )
    config = json.loads((copy / "tokenizer_config.json").read_text())
    own = {
        "auto_map": {"AutoTokenizer": ["own.Model", "own.Model"]},
        "tokenizer_class": "Model",
        "trust_remote_code": True,
    }
    (copy / "tokenizer_config.json").write_text(json.dumps({**config, **own}))
    if own_type:
        with pytest.raises(DataError, match=r"\n"):  # with a remedy
            load_all(copy)
    else:
        with suppress(DataError):
            load_all(copy)
    assert not canary.exists()


def test_a_store_s_labels_are_no_sql(tmp_path):
    from rbp.measurements.query import query

    name = "x' ; COPY (SELECT 1) TO 'canary.csv'; --"
    store = make_store(tmp_path / "a'b-store", [0, 1, 2], [3], model=name)
    found = query([store], "SELECT DISTINCT model FROM ranks")
    assert found["model"].tolist() == [name]
    assert not Path("canary.csv").exists()


def test_no_source_of_ours_reads_a_pickle_or_runs_a_text():
    """By the syntax trees: what is imported, called, and switched on."""
    modules, functions = {"pickle", "dill", "joblib", "shelve", "marshal"}, {"eval", "exec"}
    switches = {"trust_remote_code", "allow_pickle", "shell"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path}, line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.split(".")[0] for alias in node.names} | {getattr(node, "module", "") or ""}
                assert not names & modules, where
            if isinstance(node, ast.Call):
                assert not (isinstance(node.func, ast.Name) and node.func.id in functions), where
                assert ast.unparse(node.func) not in ("torch.load", "pd.read_pickle", "os.system"), where
                on = {k.arg for k in node.keywords if isinstance(k.value, ast.Constant) and k.value.value is True}
                assert not on & switches, where


def test_dependencies_are_audited_every_week():
    import yaml

    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "audit.yml").read_text())
    assert workflow[True]["schedule"], "on: schedule"
    said = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert any("pip-audit" in each and "requirements.lock" in each for each in said)
