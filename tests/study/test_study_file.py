"""A study's file: what may stand in it, and what is said of what may not."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbp.core.errors import ParameterError, RbpError
from rbp.core.paths import ROOT, Project
from rbp.study.config import dataset_name, published_models, read_study

LEAST = 'models = ["a/b"]\ncorpora = ["c4"]\n'


def read(tmp_path: Path, text: str) -> str:
    """What is said of a file."""
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ParameterError) as caught:
        read_study(path)
    return str(caught.value)


def test_the_papers_study_is_all_models_on_all_datasets() -> None:
    paper = read_study(ROOT / "studies" / "paper.toml")
    assert [model.name for model in paper.models] == list(published_models())
    assert len(paper.models) == 24
    assert len(paper.corpora) == 6
    assert len({cell.name for cell in paper.cells}) == 144
    assert (paper.protocol.name, paper.protocol.documents, paper.protocol.seed) == ("authors", 1000, 42)
    assert paper.out == ROOT / "runs" / "studies" / "paper"


def test_chapters_are_named_as_rbp_run_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(LEAST + 'chapters = ["noise", "forecasts", "05_large_k"]\nrank_chapters = ["emergence"]')
    content = read_study(path).content
    assert content.chapters == ["noise", "forecasts", "holds"]
    assert content.rank_chapters == ["emergence"]
    assert "holds is there twice" in read(tmp_path, LEAST + 'chapters = ["03_k1", "holds"]')
    assert "the number 3 is or was that of forecasts, measurements, k1" in read(tmp_path, LEAST + 'chapters = ["3"]')


@pytest.mark.parametrize("name", ["paper", "ladder", "small"])
def test_every_study_that_is_shipped_can_be_read(name: str) -> None:
    assert read_study(ROOT / "studies" / f"{name}.toml").cells


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('families = ["Pythia"]\ncorpora = ["wikpedia"]', 'Did you mean "wikipedia"?'),
        ('families = ["pythia"]\ncorpora = ["c4"]', 'Did you mean "Pythia"?'),
        ('models = ["pythia-70m"]\ncorpora = ["c4"]', 'Did you mean "EleutherAI/pythia-70m"?'),
        ('modles = ["a/b"]\ncorpora = ["c4"]', 'no key "modles"'),
        ('models = [{ name = "a/b", revison = "x" }]\ncorpora = ["c4"]', 'Did you mean "revision"?'),
        ('models = ["a/b"]', 'the key "corpora" is missing'),
        ('corpora = ["c4"]', "the study has no model"),
        ('models = ["./nothing"]\ncorpora = ["c4"]', "there is no model in ./nothing"),
        ('models = ["a/b", "a/b"]\ncorpora = ["c4"]', "a/b is there twice"),
        ('models = ["a/b"]\ncorpora = ["ladder/humanevil"]', 'Did you mean "ladder/humaneval"?'),
        ('models = ["a/b"]\ncorpora = ["mine.jsonl"]', "there is no file mine.jsonl"),
        ('models = ["a/b"]\ncorpora = [{ name = "c4", fields = ["text"] }]', "has its own fields"),
        ('models = ["a\\u0000b"]\ncorpora = ["c4"]', "is no path: embedded null"),
        (f'models = ["{"a" * 5000}"]\ncorpora = ["c4"]', "is no path: file name too long"),
        ('models = ["~nobody/x"]\ncorpora = ["c4"]', "there is no model in ~nobody/x"),
        ("models = " + "[" * 5000, "this is not TOML"),
        (LEAST + "tokens = " + "9" * 5000, "this is not TOML"),
        (LEAST + 'shards = "8"', "shards cannot be '8'"),
        (LEAST + "shards = 0", "greater than or equal to 1"),
        (LEAST + 'dtype = "bf16"', 'Did you mean "bfloat16"?'),
        (LEAST + 'vocabulary = "some"', "a number of at least 1"),
        (LEAST + "gpus = 2", "should be 'auto', 0 or 1"),
        (LEAST + 'chapters = ["03_emergenc"]', 'Did you mean "emergence"?'),
        (LEAST + "[protocol]\nlength = 1", "protocol.length"),
        (LEAST + "[protocol]\ncontext = 8", "protocol.context"),
        (LEAST + '[protocol]\nname = "author"', 'Did you mean "authors"?'),
        (LEAST + "[gpu]\nmemry = 40", 'Did you mean "memory"?'),
        (LEAST + "tokens", "this is not TOML"),
        (LEAST + "title = nan", "title cannot be nan"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(tmp_path: Path, text: str, said: str) -> None:
    message = read(tmp_path, text)
    assert said in message
    assert "s.toml" in message
    assert message.count("\n") <= 1


def test_a_missing_file_says_which_studies_there_are(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"ladder\.toml, paper\.toml, small\.toml"):
        read_study(tmp_path / "mine.toml")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "s.toml").write_text('models = ["model"]\ncorpora = ["./text.jsonl"]\noutput = "here"')
    found = read_study(tmp_path / "s.toml", Project(tmp_path))
    assert found.models[0].name == str(tmp_path / "model")
    assert found.corpora[0].name == str(tmp_path / "text.jsonl")
    assert found.out == tmp_path / "here"
    assert found.cells[0].label == "model on text"


def test_a_cell_has_another_name_for_whatever_changes_its_ranks(write_study: Callable[..., Path]) -> None:
    def name(more: str = "") -> str:
        return read_study(write_study(more=more)).cells[0].name

    others = [name('dtype = "float64"'), name('vocabulary = "tokenizer"'), name(), name("threads = 2")]
    assert len(set(others)) == 3
    assert others[2] == others[3]  # threads change nothing


@given(st.text(max_size=200))
def test_no_text_ends_in_a_traceback(text: str) -> None:
    path = Path(__file__).with_name("nothing.toml")
    with suppress(RbpError):
        _read_text(path, text)


def _read_text(path: Path, text: str) -> None:
    class Given(type(path)):
        def read_text(self, *_: object, **__: object) -> str:
            return text

    read_study(Given(path))


def test_a_corpus_is_called_as_its_store_calls_it() -> None:
    assert dataset_name("ladder/humaneval") == "humaneval"
    assert dataset_name("/x/mine.jsonl.gz") == "mine"
    assert dataset_name("pile-github") == "pile-github"
