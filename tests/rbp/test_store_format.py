"""The format of a store: its description in docs/store.md, the reader there, and older versions."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import texts, write_texts
from toy_stores import make_store
from transformers import AutoModelForCausalLM, AutoTokenizer

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.store import Store, open_store, sealed
from rbp.texts.protocol import protocol

PAGE = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
(READER,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TEXTS = texts(9, longest=40)
ALONE = (
    "import sys\nfor name in ('rbp', 'pandas', 'numpy', 'torch'): sys.modules[name] = None\n"  # none can be imported
)


@pytest.fixture(scope="module")
def measured(saved, tmp_path_factory):
    """A model's folder, and its store of several parts."""
    folder = tmp_path_factory.mktemp("measured")
    corpus = write_texts(folder / "mine.jsonl", TEXTS)
    how = protocol("windows", length=64, pack=2)
    return saved("gpt2"), extract([str(saved("gpt2"))], [str(corpus)], how, folder / "out", Settings())[0]


def read_alone(folder):
    given = [sys.executable, "-c", ALONE + READER, str(folder)]
    return subprocess.run(given, capture_output=True, text=True, check=False)


def test_the_reader_of_the_page_needs_pyarrow_alone_and_believes_nothing_that_was_altered(measured, tmp_path):
    store = open_store(measured[1])
    ranks, done = store.ranks(), read_alone(store.folder)
    assert not done.returncode, done.stderr
    *_, model, rows, first, nll = done.stdout.split()
    assert (model, int(rows)) == (store.model, store.tokens)
    assert int(first) == (ranks["greater"] + ranks["equal"] == 1).sum()
    assert float(nll) == pytest.approx(ranks["nll"].astype(float).mean(), rel=1e-6)
    altered = make_store(tmp_path / "store", [0, 1, 2, 3], [4])
    altered.parts[0].write_bytes(b"x")
    assert "ValueError" in read_alone(altered.folder).stderr


def test_the_token_of_rank_1_is_stored(measured):
    model, folder = measured
    tokenizer = AutoTokenizer.from_pretrained(model)
    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    for document, rows in open_store(folder).ranks().groupby("document"):
        ids = torch.tensor(tokenizer(TEXTS[document])["input_ids"])
        with torch.inference_mode():
            first = plain(ids[None]).logits[0].argmax(1)
        np.testing.assert_array_equal(rows["top"], first[rows["position"].to_numpy() - 1])


def test_a_store_of_another_version_is_refused_with_its_remedy(tmp_path):
    store = make_store(tmp_path / "store", [0, 1], [2])
    path = store.folder / "manifest.json"
    path.write_text(json.dumps(sealed({**json.loads(path.read_text()), "format": 2})))
    with pytest.raises(DataError, match="another version") as refused:
        open_store(store.folder)
    assert "Extract it again" in str(refused.value.remedy)


def test_an_error_of_the_writer_is_not_lost(saved, tmp_path, monkeypatch):
    """A part is written while the next one is ranked: of the last part, too."""
    corpus = write_texts(tmp_path / "mine.jsonl", texts(4, longest=40))
    write = Store.write

    def fails(store, pack, columns):
        if pack == last:
            raise OSError(28, "No space left on device")
        write(store, pack, columns)

    monkeypatch.setattr(Store, "write", fails)
    how = protocol("windows", length=64, pack=1)
    for last in (0, 3):
        with pytest.raises(OSError, match="No space left"):
            extract([str(saved("gpt2"))], [str(corpus)], how, tmp_path / str(last), Settings())
    (folder,) = (tmp_path / "3").iterdir()
    assert sorted(Store(folder).parts()[0]) == [0, 1, 2]
