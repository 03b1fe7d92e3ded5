"""What other packages add by entry points is found, and the library works without."""

from pathlib import Path

import pandas as pd
import pytest

from rbp import registry
from rbp.measurements import open_source, sources
from rbp.texts.corpora import open_corpus

MODULE = """
from pathlib import Path
from rbp.measurements.parts import File
from rbp.measurements.sources import Named
from rbp.texts.corpora import Corpus

SOURCES = {"mine": Named("what a test measured", lambda word, rule: File(word, (Path(__file__).parent / "mine.csv",)))}

def open_text(name):
    return Corpus(name, [f"the text {name}"])
"""
ENTRIES = "[rbp.sources]\nbrought = brought:SOURCES\n[rbp.corpora]\nbrought = brought:open_text\n"
ROW = {"dataset": "t", "model": "m", "family": "F", "size": 1000, "metric": "neg_log_rbp", "k": 1, "value": 0.5}


def test_what_an_installed_package_brings_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought.py").write_text(MODULE)
    metadata = tmp_path / "brought-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    pd.DataFrame([ROW]).to_csv(tmp_path / "mine.csv", index=False)
    monkeypatch.syspath_prepend(tmp_path)
    for module, name in ((registry, "_all_entries"), (registry, "entries"), (sources, "named_sources")):
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    source = open_source("mine")
    assert source.table["value"].tolist() == [0.5]
    assert source.is_only("mine")
    assert sources.available_sources().keys() > {"published", "ladder"}, "those of this checkout are there too"
    assert list(open_corpus("brought/one").documents) == ["the text one"]
