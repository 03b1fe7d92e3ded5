"""What is wrong with a reader's table, or lacking in it, is said before a kernel starts."""

import pytest
from commands import here, refused

from companion.execute import run as chapters
from companion.execute.needs import check_sources
from companion.execute.run import find
from companion.project import Project
from rbp.errors import RbpError

HEAD = "dataset,model,family,size,metric,k,value,tokens,hits"
ROWS = [f"d,m{s},F,{s},neg_log_rbp,1,{s**-0.1:.4f},," for s in (10**6, 10**7, 10**8, 10**9)]
ENTROPY = [f"d,m{s},F,{s},cross_entropy,,{9 * s**-0.1:.4f},," for s in (10**6, 10**7)]


def write(path, rows):
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return {"measurements": str(path)}


@pytest.mark.parametrize(
    ("chapter", "rows", "word"),
    [
        ("forecasts", ROWS[:3], "4 sizes"),
        ("cross_entropy", ROWS, "both"),
        ("holds", ENTROPY, "neg_log_rbp"),
        ("noise", ROWS, "tokens"),
        ("emergence", ROWS, "windows"),
        ("lognormal", ROWS, "histograms"),
        ("ladder", ROWS, "rank stores"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_a_table_that_lacks_what_a_chapter_needs_is_refused(chapter, rows, word, tmp_path):
    with pytest.raises(RbpError, match=word):
        check_sources(find(Project(), chapter), write(tmp_path / "mine.csv", rows))


def test_all_faults_come_at_once_and_before_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(chapters, "_run", lambda *_: pytest.fail("a kernel was started"))
    path = tmp_path / "mine.csv"
    write(path, [*ROWS, "d,b,F,1000,neg_log_rbp,1,n/a,,", "d,c,F,1000,neg_log_rbp,1,,,"])
    refused(here("run", "ladder", "-p", f"measurements={path}"), "line 6", "line 7", "rank stores")
    write(path, ROWS)
    refused(here("run", "holds", "-p", f"measurements={path}", "-p", "families=G"), "G", "F")
