"""A whole study on this machine, by its commands; and where a study may run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from cli.test_cli import here, refused
from draws import loop_and_slow
from made_studies import parts
from mini import write_book, write_chapter
from typer.testing import CliRunner

from rbp.book.results import Recorded
from rbp.book.results import write_book as write_results
from rbp.cli.app import app
from rbp.core.errors import DataError, ParameterError
from rbp.core.paths import ROOT, Project
from rbp.evidence import open_source
from rbp.study import workflow
from rbp.study.config import Study, read_study
from rbp.study.jobs import Job, log_file, shards_of, state
from rbp.study.workflow import Place, find_place

PROSE = """%%md
Another: {value}`01_a::v:.1f`. Of the book: {value}`09_mine::value:.1f`. Absent:
{value}`02_b::w:.1f`. Links: [beside](09_mine.ipynb), [more](../book/more.md), [elsewhere](02_b.ipynb).
"""
OUTPUT = """
from IPython.display import HTML
HTML('<a href="10_next/data.csv">data</a>')
"""


RBP = [sys.executable, "-m", "rbp.cli"]


def kill_first_shard(study: Study, driver: "subprocess.Popen[str]") -> Job:
    """Kill the process of the shard that is the first to run."""
    shards = shards_of(study, study.cells[0])
    while not (running := [shard for shard in shards if state(study, shard).stand == "running"]):
        assert driver.poll() is None
        time.sleep(0.01)
    pid = json.loads((study.out / "state" / f"{running[0].name}.json").read_text())["pid"]
    assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2:4] == [b"rbp.book.workers", b"--serve"]  # warm
    os.kill(pid, signal.SIGKILL)
    return running[0]


@pytest.mark.builds
@pytest.mark.parametrize("again", loop_and_slow(False, True))
def test_from_shards_to_chapters(
    tmp_path: Path, write_study: Callable[..., Path], whole_store: dict[str, bytes], again: bool
) -> None:
    project = Project(tmp_path / "project")
    project.root.mkdir()
    write_book(project)
    check = "from pathlib import Path\nassert Path(measurements).exists()\nvalue = 1.5"
    parameter = 'measurements: str = "published"  # where they come from'
    write_chapter(project, "09_mine", check, parameters=parameter)
    write_chapter(project, "10_next", PROSE, OUTPUT, "value = 2.0", parameters=parameter)
    write_results(project.expected, {"01_a": {"v": Recorded(3.25)}, "09_mine": {"value": Recorded(9.0)}})
    thin = "from rbp.core.errors import FitError\nraise FitError('one size is *too few*', 'size')"
    write_chapter(project, "12_thin", thin, parameters=parameter)
    more = 'title = "A *study*"\ngpus = 1\nchapters = ["10_next", "12_thin", "09_mine"]'
    file = write_study(shards=3, more=more)
    command: list[str | Path] = ["--root", project.root, "study"]
    study = read_study(file, project)
    run = [*command, "run", file, "--profile", "local", "--gpus", "3,5"]
    driver = subprocess.Popen([*RBP, *map(str, run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed = kill_first_shard(study, driver)
    stdout, stderr = driver.communicate(timeout=1800)
    assert driver.returncode == 0, stderr
    assert parts(study.ranks) == whole_store
    attempts = {job: log_file(study, job).read_text().count("--- ") for job in shards_of(study, study.cells[0])}
    assert attempts == {job: 1 + (job == killed) for job in attempts}, "it is done again, and takes no other with it"
    table = open_source(study.out / "measurements.parquet").table
    assert set(table["model"]) == {"neox-10k-at-8m"}
    assert set(table["family"]) == {"neox"}
    assert table.equals(open_source(study.out / "measurements.csv").table.astype(table.dtypes))
    assert open_source(study.out / "finished").table["value"].equals(table["value"])
    results = json.loads((study.out / "chapters" / "09_mine" / "results.json").read_text())
    assert results["values"]["value"]["value"] == 1.5
    assert (study.out / "chapters" / "09_mine" / "09_mine.html").is_file()
    states = [json.loads(path.read_text()) for path in study.out.glob("state/shards/*/*.json")]
    assert {one["gpu"] for one in states} <= {"3", "5"}  # each shard had one of the GPUs that were given
    status = here("study", "status", str(file), "--json", root=project.root)
    assert json.loads(status.stdout)["counts"] == {"done": 9, "running": 0, "failed": 0, "left": 0}
    assert "without  chapters/12_thin: one size is *too few* (size)" in stderr
    assert stdout.split() == [str(study.out / name) for name in ("measurements.parquet", "book/index.html")]
    check_book(study)
    assert "1 of 1 stores" in CliRunner().invoke(app, [*map(str, command), "plan", str(file)]).output
    if again:
        check_second_run(study, run, whole_store)


@pytest.mark.builds
def test_what_a_server_imports_for_jobs_asks_for_no_gpu_and_starts_no_thread() -> None:
    code = f"""
import os
from importlib import import_module
from rbp.book.workers import ALONE, _is_alone
os.environ |= ALONE
import torch
def refuse(*_): raise AssertionError("a GPU is asked for")
torch.cuda.is_available = torch.cuda.device_count = torch.cuda._lazy_init = refuse
for name in {workflow.WARM}: import_module(name)
assert _is_alone()
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("MPLBACKEND")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def check_second_run(study: Study, command: list[str | Path], whole_store: dict[str, bytes]) -> None:
    """A part is damaged: it, and what follows from it, is made anew, and nothing else."""
    later = [study.out / "measurements.parquet", study.out / "chapters" / "10_next", study.out / "book"]
    before = {path: path.stat().st_mtime_ns for path in [*study.ranks.rglob("*.parquet"), *later]}
    (damaged := next(iter(before))).write_bytes(b"")
    again = subprocess.run([*RBP, *map(str, command)], capture_output=True, text=True, check=False, timeout=1800)
    assert again.returncode == 0, again.stderr
    assert "not as it was" in again.stderr
    assert parts(study.ranks) == whole_store
    changed = {path for path in before if path.stat().st_mtime_ns != before[path]}
    assert changed == {damaged, *later}


def check_book(study: Study) -> None:
    """The pages say what was measured, and every link in them leads to a file, an anchor, or outside."""
    book = study.out / "book"
    pages = {page: BeautifulSoup(page.read_text(), "html.parser") for page in book.rglob("*.html")}
    pages = {page: soup for page, soup in pages.items() if "_static" not in page.parts}  # a theme's templates
    for page, soup in pages.items():
        found = [tag[name] for name in ("href", "src") for tag in soup.select(f"[{name}]")]
        for address in found:
            target = (page.parent / address.split("#")[0].split("?")[0]).resolve()
            outside = address.startswith(("#", "http", "mailto:", "data:"))
            assert outside or (target.is_file() and target.is_relative_to(book)), (page, address)
    front = pages[book / "index.html"]
    article = front.select_one("article")
    assert article.select_one("h1").contents[0] == "A *study*"
    manifest = json.loads(next(study.ranks.glob("*/manifest.json")).read_text())
    cells = [[cell.get_text().strip() for cell in row.select("td")] for row in article.select("tbody tr")]
    size, tokens = f"{manifest['about']['size']:,}", f"{manifest['tokens']:,}"
    assert cells == [["neox-10k-at-8m", "neox", size, "4,096", "–"], ["neox-10k-at-8m", tokens]]
    assert "cut to 64 tokens" in article.get_text()
    assert "float32" in article.get_text()
    assert f"rbp study run {study.path.name}" in article.get_text()
    links = [link["href"] for link in article.select("#the-chapters a.reference")]
    assert links == ["notebooks/09_mine.html", "notebooks/10_next.html"]
    left = "These cannot be made from this study's measurements: 12_thin: one size is *too few* (size)"
    assert left in " ".join(article.get_text().replace("’", "'").split())
    kept = {link["href"] for link in article.select("a[download]")}
    assert kept == {"measurements.parquet", "measurements.csv", "study.toml"}
    assert all((book / name).read_bytes() == (study.out / name).read_bytes() for name in kept - {"study.toml"})
    chapter = pages[book / "notebooks" / "10_next.html"].select_one("article")
    assert "This page was run with measurements" in chapter.select_one("h1 + blockquote").get_text()
    assert "Another: 3.2. Of the book: 9.0. Absent: –." in " ".join(chapter.get_text().split())
    assert {a.get_text(): a.get("href") for a in chapter.select("p a")} == {
        "beside": "09_mine.html",
        "more": None,
        "elsewhere": None,
    }
    assert chapter.select_one("div.output a")["href"] == "10_next/data.csv"


def test_the_profile_is_what_the_machine_has(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert find_place(study, None, None) == Place("local", "cpu", (), False)
    with pytest.raises(ParameterError, match="no sbatch"):
        find_place(study, "slurm", None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert find_place(study, None, None).profile == "slurm"
    assert find_place(study, "local", None).profile == "local"
    with pytest.raises(ParameterError, match="no profile"):
        find_place(study, "cloud", None)


def on(study: Study, **changes: object) -> Study:
    return replace(study, content=study.content.model_copy(update=changes))


def test_gpus_are_taken_where_there_are_some(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    either = on(study, device="auto")
    monkeypatch.setattr(workflow, "_gpus_here", lambda: ("0", "1"))
    assert find_place(either, "local", None) == Place("local", "cuda", ("0", "1"), True)
    assert find_place(either, "local", "1") == Place("local", "cuda", ("1",), True)
    monkeypatch.setattr(workflow, "_gpus_here", lambda: ())
    assert find_place(either, "local", None) == Place("local", "cpu", (), False)
    with pytest.raises(ParameterError, match="this machine has none"):
        find_place(on(study, device="cuda"), "local", None)
    with pytest.raises(ParameterError, match="are no GPUs"):
        find_place(either, "local", "0,0")


def test_a_model_that_does_not_fit_is_refused_with_the_numbers(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('models = ["Qwen/Qwen2.5-14B"]\ncorpora = ["humaneval"]\noutput = "out"\n[gpu]\nmemory = 40.0')
    with pytest.raises(ParameterError, match=r"needs 6\d\.\d GB in float32, and .* has 40.0 GB"):
        workflow.run(read_study(file), Project(), Place("local", "cuda", ("0",), True))
    assert not (tmp_path / "out").exists()


def test_a_model_larger_than_the_machine_is_refused_with_the_numbers(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "_memory", lambda: 1000)
    with pytest.raises(ParameterError, match=r"neox-10k-at-8m needs 1\.\d GB in float32, and this machine has 1.0 GB"):
        workflow.run(study, Project(), Place("local", "cpu", (), False))
    workflow._must_fit(study, Place("slurm", "cpu", (), False))  # Slurm looks for a machine that has as much


def test_two_drivers_of_one_study_are_one_too_many(study: Study) -> None:
    study.out.mkdir()
    with workflow._alone(study):
        assert workflow.is_driven(study)
        with pytest.raises(DataError, match="being run already"), workflow._alone(study):
            pass
    assert not workflow.is_driven(study)


def test_a_wrong_study_ends_with_two_lines_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('models = ["a/b"]\ncorpora = ["wikipdia"]')
    refused(here("study", "plan", str(tmp_path / "s.toml")), 'Did you mean "wikipedia"?')


def test_the_paper_can_be_planned_without_a_network() -> None:
    planned = here("study", "plan", str(ROOT / "studies" / "paper.toml"), "--json", "--gpus", "1,8,64")
    found = json.loads(planned.stdout)
    assert len(found["cells"]) == 144
    assert found["hours"]["8"] < found["hours"]["1"] / 7
    assert all(cell["there"]["whole"] is False for cell in found["cells"])
