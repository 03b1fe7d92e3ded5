"""A live book of two small chapters, whose runs are short scripts instead of kernels."""

import socket
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from mini import write_chapter
from visitors import Browser

from companion.live import requests
from companion.live.runs import Runs, compare_runs
from companion.live.server import Live
from companion.project import Project
from rbp.measurements import open_source

#: stands in for the execution of a chapter: prints, waits as long as its parameter says, writes a page
SCRIPT = """
import json, pathlib, sys, time
from companion.live.runs import limit_process
limit, server, folder = float(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
limit_process(limit, server)
asked = json.loads((folder / "run.json").read_text())
value, name = asked["parameters"].get("value", 1), asked["chapter"]
print("cell 1 of 2", flush=True)
time.sleep(value if value < 0.5 or value > 20 else 0)
if value == 13:
    sys.exit("error: thirteen is not taken")
print("cell 2 of 2", flush=True)
page = folder / "page"
(page / name).mkdir(parents=True)
(page / f"{name}.html").write_text("<p>" + str(asked["parameters"]) + "<script>document.title='in'</script>")
(page / name / "data.csv").write_text("value\\n1\\n")
values = {"value": {"value": value, "unit": "", "tolerance": 1e-9}}
(page / "results.json").write_text(json.dumps({"chapter": name, "values": values, "reads": [], "steps": []}))
"""

PARAMETERS = """
measurements: str = "published"  # whose numbers
value: float = 1.0  # a number
draws: int = 2000  # how often; draws ≥ 1
seed: int = 1  # of the draws
datasets: list[str] = []  # which
study: str = "studies/one.toml"  # a file
"""


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path / "project")
    write_chapter(project, "01_a", parameters=PARAMETERS)
    write_chapter(project, "02_b", parameters="value: float = 1.0  # a number")
    for name in ("one.toml", "two.toml", "other.csv"):
        (project.root / "studies" / name).parent.mkdir(exist_ok=True)
        (project.root / "studies" / name).write_text("")
    project.html.mkdir(parents=True)
    (project.html / "index.html").write_text("<body>the book</body>")
    (project.build / "secret.txt").write_text("not a page")
    return project


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return sys.executable, str(path)


@pytest.fixture
def runs(project, script):
    runs = Runs(project, at_once=1, command=script, most=3)
    yield runs
    runs.close()


@pytest.fixture
def live(project, runs):
    listening = socket.create_server(("127.0.0.1", 0))
    live = Live(project, "127.0.0.1", listening.getsockname()[1], runs, lambda address: None)
    server = live.server()
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
    yield live
    server.should_exit = True  # it takes a fifth of a second, for which no test need wait


@pytest.fixture
def reader(live):
    return Browser(live).enter()


@pytest.fixture
def work_here(monkeypatch):
    """Tables are opened and runs compared in this process, on a page of one line: `tests/built` sees the others."""

    def work(root, command, *paths):
        if command == "_check":
            return open_source(Path(paths[0])).table
        return compare_runs(Project(root), [Path(folder) for folder in paths[1:]], Path(paths[0]))

    def compare(chapter, runs, page):
        page.parent.mkdir(parents=True)
        page.write_text(f"{len(runs)} runs of {chapter.name} compared")

    monkeypatch.setattr(requests, "work_apart", work)
    monkeypatch.setattr("companion.execute.comparison.compare", compare)
