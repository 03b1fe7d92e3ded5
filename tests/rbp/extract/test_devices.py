"""One model over several places, here memory and disk, beside the same model in one."""

import pandas as pd
import pytest
import tiny

from rbp.extract import extraction
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store

HOW = protocol("windows", length=96, pack=4)


@pytest.fixture
def corpus(tmp_path):
    return str(tiny.write_texts(tmp_path / "mine.jsonl", tiny.texts(6, seed=3)))


def some_memory(kind):
    """Bytes for the embedding and one layer, and less than all."""
    total = sum(each.numel() * 4 for each in tiny.random_model(kind).parameters())
    return {"cpu": int(total * 0.6)}


@pytest.mark.parametrize("kind", ["opt", "mixtral"])
def test_ranks_are_those_of_a_model_in_one_place(tmp_path, corpus, monkeypatch, saved, kind):
    model, asked = str(saved(kind)), []
    monkeypatch.setattr(extraction, "limits", lambda reserved: asked.append(reserved) or some_memory(kind))
    (one,) = extract([model], [corpus], HOW, tmp_path / "one")
    (several,) = extract([model], [corpus], HOW, tmp_path / "several", Settings(devices="auto"))
    one, several = open_store(one), open_store(several)
    pd.testing.assert_frame_equal(several.ranks(), one.ranks(), rtol=0, atol=1e-5)
    for column in ("token", "greater", "equal"):
        assert several.ranks()[column].equals(one.ranks()[column])
    about, other = several.manifest["about"], one.manifest["about"]
    assert "disk" in about["places"]
    assert "places" not in other
    assert (about["head"], about["size"]) == (other["head"], other["size"])
    assert asked == [4 * tiny.VOCAB * 32]
    assert several.sampled.tokens > 0  # by the model in several places itself
