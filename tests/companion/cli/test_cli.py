import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from commands import here, refused
from mini import write_book, write_chapter

from companion.execute.results import ChapterResults, Recorded, read_book
from companion.execute.results import write_book as write_results
from companion.execute.results import write_chapter as write_chapter_results
from companion.project import ROOT, Project
from companion.render.build import sources_of
from rbp.io import write_json


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("cli"))
    write_book(project)
    write_chapter(
        project, "05_needs", "from rbp.errors import DataError\nraise DataError('no cross-entropy', 'x.csv', 'Add it.')"
    )
    return project


PYTHIA = ["fit", "published", "--dataset", "wikipedia", "--family", "Pythia"]
OPT = ["fit", "published", "--dataset", "auslegal", "--family", "OPT"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "01_aa"], ['"01_aa"', 'Did you mean "01_a"?', "05_needs"]),
        (["run", "1", "-p", "K=3"], ['no parameter "K"', 'Did you mean "k"?']),
        (["chapterz"], ["No such command", 'Did you mean "chapters"? There are: extract']),
        pytest.param(
            ["run", "05_needs", "--out", "new"], ["no cross-entropy (x.csv)", "Add it."], marks=pytest.mark.long
        ),
        (["run", "1", "--out", f"{__file__}/new"], ["test_cli.py", "Check the path"]),
        (["verify"], ["the book was built from other files", "01_a is not built", "rbp book"]),
        ([*PYTHIA, "--at", "1e12"], ["there are", "laws to fit", "--k"]),
        ([*PYTHIA, "--k", "1", "--without", "pythia-14"], ["no model pythia-14", '"EleutherAI/pythia-14m"?']),
        ([*OPT, "--k", "1", "--weights"], ["it is not known how many tokens", "Fit without"]),
    ],
)
def test_mistakes_are_answered_and_leave_nothing(project, tmp_path, arguments, words):
    refused(here(*arguments, cwd=tmp_path, root=project.root), *words)
    assert list(tmp_path.iterdir()) == []


def alive(word):
    """The running processes whose command lines hold ``word``."""
    return [each for each in psutil.process_iter(["cmdline"]) if word in " ".join(each.info["cmdline"] or [])]


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "code", "interrupts"),  # a job in a shell's background is started with SIGINT ignored
    [(signal.SIGINT, 130, signal.SIG_DFL), pytest.param(signal.SIGTERM, 143, signal.SIG_IGN, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("arguments", [["run", "01_a", "--out", "runs/out"], ["book"]])
def test_an_interrupted_command_leaves_nothing(tmp_path, arguments, sent, code, interrupts):
    project = Project(tmp_path / "p")
    started = tmp_path / "started"
    write_chapter(project, "01_a", f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(60)")
    project.book.mkdir()
    for name in ("_config.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, project.root)
    command = [sys.executable, "-m", "rbp.cli", "--root", str(project.root), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    ignore = lambda: signal.signal(signal.SIGINT, interrupts)  # noqa: E731
    running = subprocess.Popen(command, cwd=project.root, env=environment, preexec_fn=ignore, **pipes)
    while not started.exists():
        assert running.poll() is None
        time.sleep(0.02)
    assert alive(str(project.root))
    running.send_signal(sent)
    _, said = running.communicate(timeout=120)
    assert running.returncode == code
    assert "Traceback" not in said
    assert [path for place in (project.chapters, project.runs) for path in place.rglob("*") if path.is_file()] == []
    assert alive(str(project.root)) == []


def test_verify_names_what_moved_and_what_nobody_recorded_with_what_names_it(tmp_path):
    project = Project(tmp_path)
    write_results(project.results, {"01": {"alpha": Recorded(1.0), "seconds": Recorded(5.0, "s", None)}})
    refused(here("verify", root=tmp_path), "there are no results here", "--accept")
    assert here("verify", "--accept", root=tmp_path).returncode == 0
    assert here("verify", root=tmp_path).returncode == 0
    moved = {"alpha": Recorded(1.1), "beta": Recorded(1), "seconds": Recorded(9.0, "s", None)}
    write_results(project.results, {"01": moved, "ledger": {"claims": Recorded(1)}})
    project.book.mkdir()
    (project.book / "page.md").write_text("# Page\n{value}`01::beta`\n{value}`01::m:of beta`\n")
    done = here("verify", root=tmp_path)
    assert done.returncode == 1
    assert "not recorded: 01::m (book/page.md, line 3)\n" in done.stdout
    assert "not recorded: holds::large.gpt2_rising (claim large_k)" in done.stdout
    lines = [line.split()[:3] for line in done.stdout.splitlines() if not line.startswith("not recorded")]
    assert lines == [["moved", "01", "alpha:"], ["new", "01", "beta:"], ["new", "ledger", "claims:"]]


def test_verify_and_accept_take_the_name_of_a_chapter(tmp_path):
    project = Project(tmp_path)
    write_chapter(project, "one")
    built = ChapterResults("one", {"n": Recorded(1.0), "new": Recorded(1)})
    write_chapter_results(project.chapters / "one" / "results.json", built)
    write_json(project.inputs / "one.json", sources_of(project, "one"))
    write_results(project.expected, {"one": {"n": Recorded(1 + 1e-12)}, "two": {"x": Recorded(2.0)}})
    done = here("verify", "one", root=tmp_path)  # the other is not built
    assert (done.returncode, done.stdout) == (1, "new     one new: 1\n")
    assert here("verify", "one", "--accept", root=tmp_path).returncode == 0
    accepted = {"one": {"n": Recorded(1 + 1e-12), "new": Recorded(1)}, "two": {"x": Recorded(2.0)}}
    assert read_book(project.expected) == accepted
