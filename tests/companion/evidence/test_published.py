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
def folder(tmp_path):
    return shutil.copytree(published.FOLDER, tmp_path / "published")


@pytest.fixture
def edit(folder):
    """Replace one line of a file of the copied folder (1 is the header); None leaves the line out."""

    def change(name, line, text):
        path = folder / name
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[line - 1 : line] = [] if text is None else text.split("\n")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return change


@pytest.mark.parametrize("name", READERS)
def test_a_repeated_row_a_cell_that_is_no_number_and_a_missing_column_are_named(name, folder, edit):
    reader, lines = READERS[name][0], (folder / name).read_text(encoding="utf-8").splitlines()
    edit(name, 4, lines[2])
    with pytest.raises(DataError, match=rf"repeats line 3.*{name}, line 4"):
        reader(folder)
    edit(name, 4, lines[3])
    cells, place = lines[4].split(","), -2 if name == "rbp.csv" else -1
    wrongs = [("", "is empty")]
    if name == "models.csv":  # the same code reads the others
        wrongs += [("NaN", "is NaN"), ("many", "is no number"), ("inf", "is infinite")]
    for wrong, words in wrongs if name not in ("table1.csv", "fit_by_k.csv") else ():
        cells[place] = wrong
        edit(name, 5, ",".join(cells))
        with pytest.raises(DataError, match=rf"{words}.*{name}, line 5"):
            reader(folder)
    edit(name, 1, lines[0] + "x")
    with pytest.raises(DataError, match=rf"column {lines[0].split(',')[-1]} is missing.*{name}"):
        reader(folder)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rbp.csv", "auslegal,openai-community/gpt2,1,-0.4,figure 3", "neg_log_rbp -0.4 must be above 0"),
        ("rbp.csv", "auslegol,openai-community/gpt2,1,0.4,figure 3", "dataset auslegol must be one of"),
        ("rbp.csv", "auslegal,gpt2,1,0.4,figure 3", "unknown model 'gpt2'"),
        ("rbp.csv", "auslegal,openai-community/gpt2,1,0,4,figure 3", "6 cells where the header has 5"),
        ("table1.csv", "auslegal,cross_entropy,1,GPT-2,0.961,-0.071", "k belongs to neg_log_rbp"),
        ("gpt2_window_counts.csv", "wikipedia,openai-community/gpt2,1,1,9,8", "more successes than windows"),
        ("models.csv", "openai-community/gpt2,GPT-2,gpt2,124439808,39383808,85056001,50257", "do not add up"),
    ],
)
def test_impossible_rows(folder, edit, name, text, words):
    edit(name, 2, text)
    with pytest.raises(DataError, match=rf"{words}[^\n]*{name}, line 2") as caught:
        READERS[name][0](folder)
    assert str(caught.value).count("\n") == 1
