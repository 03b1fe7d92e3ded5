import shutil

import pytest

from companion.evidence import published
from rbp.errors import DataError

READERS = {
    "models.csv": (published.models, 24),
    "rbp.csv": (published.rbp, 946),
    "table1.csv": (published.table1, 168),
    "fit_by_k.csv": (published.fit_by_k, 88),
    "sequence_success.csv": (published.sequence_success, 720),
    "cross_entropy_vs_rbp1.csv": (published.cross_entropy_vs_rbp1, 40),
    "rank_frequency.csv": (published.rank_frequency, 167),
    "lognormal_parameters.csv": (published.lognormal_parameters, 10),
    "gpt2_window_counts.csv": (published.gpt2_window_counts, 100),
    "gpt2_cross_entropy.csv": (published.gpt2_cross_entropy, 4),
}


@pytest.fixture
def read_with(tmp_path):
    """Read a file one line of which is another (1 is the header)."""

    def read(name, line, text):
        for each in {name, "models.csv"}:
            shutil.copy(published.FOLDER / each, tmp_path)
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        lines[line - 1] = text
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return READERS[name][0](tmp_path)

    return read


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rbp.csv", "auslegal,openai-community/gpt2,1,-0.4,figure 3", "neg_log_rbp -0.4 must be above 0"),
        ("rbp.csv", "auslegal,gpt2,1,0.4,figure 3", "unknown model 'gpt2'"),
        ("gpt2_window_counts.csv", "wikipedia,openai-community/gpt2,1,1,9,8", "more successes than windows"),
        ("models.csv", "openai-community/gpt2,GPT-2,gpt2,124439808,39383808,85056001,50257", "do not add up"),
    ],
)
def test_impossible_rows(read_with, name, text, words):
    with pytest.raises(DataError, match=rf"{words}[^\n]*{name}, line 2") as caught:
        read_with(name, 2, text)
    assert str(caught.value).count("\n") == 1
