import json
import os
from contextlib import chdir
from pathlib import Path

import pytest
from mini import outputs, write_chapter

from companion.execute.run import Chapter, execute, find
from companion.project import Project
from rbp.errors import ChapterError, ChapterFailed, ParameterError

PARAMETERS = """
    name: str = "a"  # a word
    k: int = 3  # a threshold
"""


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def left(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.long
def test_execution_is_whole_reproducible_and_leaves_the_caller_alone(project, capfd):
    cell = """
        import os, sys
        value = k
        print("on the way", file=sys.stderr)
        print(name, os.getcwd(), os.environ["OMP_NUM_THREADS"], hash("a"), sep="|")
    """
    chapter = Chapter(write_chapter(project, "01_a", cell, parameters=PARAMETERS))
    work = project.root / "some {where}"
    work.mkdir()
    # Values are data: none of these may end the string, run, or be expanded.
    name = "\"; import os; os._exit(1)  # '\\ {k} $HOME `id`\nñ"
    out, caller = project.runs / "out", (dict(os.environ), Path.cwd())
    project.runs.mkdir()
    execute(chapter, {"name": name, "k": 7}, out, work, on_cell=lambda *_: None)  # which shows what a kernel says
    assert (dict(os.environ), Path.cwd()) == caller
    assert left(out) == ["01_a", "01_a.ipynb", "results.json", "run.json"]
    assert outputs(out / "01_a.ipynb").startswith(f"{name}|{work}|1|")
    assert "on the way" not in outputs(out / "01_a.ipynb")
    assert capfd.readouterr().err.count("on the way\n") == 1
    assert json.loads((out / "results.json").read_text())["values"]["value"]["value"] == 7

    first = (out / "01_a.ipynb").read_bytes()
    assert json.loads(first)["metadata"]["rbp"]["changed"] == {"name": name, "k": 7}
    (out / "01_a" / "old.csv").write_text("of an earlier execution")
    execute(chapter, {"name": name, "k": 7}, out, work)
    assert (out / "01_a.ipynb").read_bytes() == first
    assert left(out / "01_a") == ["data.csv"], "the old folder is replaced whole"
    (work / "thesis.tex").write_text("years")
    with pytest.raises(ParameterError, match=r"other things: thesis\.tex"):
        execute(chapter, {}, work, project.root)
    assert left(work) == ["thesis.tex"]


@pytest.mark.long
def test_a_dead_kernel_is_named_and_what_it_did_is_kept(project):
    cells = ("print('so far')", "import os; os._exit(3)", "3")
    chapter = Chapter(write_chapter(project, "01_a", *cells, parameters=PARAMETERS))
    out = project.runs / "out"
    with pytest.raises(ChapterFailed, match="01_a failed at cell 4: Kernel died") as caught:
        execute(chapter, {"k": 4}, out, project.root)
    assert left(project.runs) == ["out.failed.ipynb"]
    assert caught.value.partial_notebook == out.with_name("out.failed.ipynb")
    assert outputs(caught.value.partial_notebook).startswith("so far")


@pytest.mark.usefixtures("without_kernel")
def test_a_chapter_must_close_its_page_and_declare_what_it_reads(project):
    out = project.runs / "out"
    with pytest.raises(ChapterError, match=r"page.close\(\)"):
        execute(Chapter(write_chapter(project, "01_a", close=False)), {}, out, project.root)
    reads, parameters = ("data/a.csv", "data/b.csv"), 'measurements: str = "published"  # source'
    path = write_chapter(project, "01_a", "value = 1", parameters=parameters, reads=reads, declared=reads[:1])
    with pytest.raises(ChapterError, match=r"undeclared files: data/b.csv"):
        execute(Chapter(path), {}, out, project.root)
    assert left(project.runs) == []
    execute(Chapter(path), {"measurements": "my.csv"}, out, project.root)
    assert left(out) == ["01_a", "01_a.ipynb", "results.json", "run.json"]


SIZES = (10**6, 10**7, 10**8, 10**9)
TABLE = "\n".join(
    ["dataset,model,family,size,metric,k,value", *(f"d,m{s},F,{s},neg_log_rbp,1,{s**-0.1:.6f}" for s in SIZES)]
)


@pytest.mark.long
@pytest.mark.usefixtures("without_kernel")
def test_what_is_handed_on_names_its_own_copies_and_no_place_of_this_machine(project):
    """Whatever the reader typed, in every text that the run leaves; the explorer of forecasts repeats the name."""
    work, out = project.root / "wörk", project.root / "öut"
    (work / "sub").mkdir(parents=True)
    (work / "mine.csv").write_text(TABLE)
    with chdir(work):
        execute(find(Project(), "forecasts"), {"measurements": "sub/../mine.csv"}, out, work)
    texts = {path.name: path.read_text() for path in out.rglob("*") if path.suffix in (".csv", ".json", ".ipynb")}
    assert len(texts) >= 5
    places = (str(work), str(project.root), json.dumps(str(work))[1:-1], "sub/..")
    assert [name for name, text in texts.items() for place in places if place in text] == []
    assert "inputs/mine.csv" in json.loads(texts["results.json"])["reads"]
    assert "--measurements" not in texts["forecasts.ipynb"] or "inputs/mine.csv" in texts["forecasts.ipynb"]
    request = json.loads(texts["run.json"])
    assert request["command"] == "rbp run forecasts -p measurements=inputs/mine.csv"
