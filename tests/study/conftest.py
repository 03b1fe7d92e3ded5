"""Studies for the tests: the ladder's smallest model on text that is rebuilt from its ranks; nothing is downloaded."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything of Hugging Face is imported

from collections.abc import Callable
from pathlib import Path

import pytest
from made_studies import MODEL, parts

from rbp.study.config import Study, read_study

TINY = """
models = [{{ name = "{model}", family = "neox" }}]
corpora = ["ladder/humaneval"]
tokens = 1500
device = "cpu"
backend = "reference"
shards = {shards}
output = "{out}"
{more}
[protocol]
name = "authors"
length = 64
pack = 2
"""


@pytest.fixture
def write_study(tmp_path: Path) -> Callable[..., Path]:
    """write_study(shards, more, name): the file of a study of one model on one corpus; its output is `name`."""

    def write(shards: int = 2, more: str = "", name: str = "out") -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text(TINY.format(model=MODEL, shards=shards, out=tmp_path / name, more=more))
        return path

    return write


@pytest.fixture
def study(write_study: Callable[..., Path]) -> Study:
    """A study of one model on one corpus, in two shards."""
    return read_study(write_study())


@pytest.fixture(scope="session")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The parts of that measurement, made in one go and without any study."""
    from rbp.ranks.extraction import Settings, extract
    from rbp.ranks.protocols import protocol

    out = tmp_path_factory.mktemp("whole")
    chosen = protocol("authors", length=64, tokens=1500, pack=2)
    extract([str(MODEL)], ["ladder/humaneval"], chosen, out, Settings(device="cpu", backend="reference"))
    return parts(out)
