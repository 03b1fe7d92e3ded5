"""A live book of two small chapters, whose runs are short scripts instead of kernels."""

import http.client
import json
import socket
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mini import write_chapter

from rbp.core.paths import Project
from rbp.live.runs import ENDED, Run, Runs
from rbp.live.server import Live

#: stands in for the execution of a chapter: prints, waits as long as its parameter says, writes a page
SCRIPT = """
import json, pathlib, sys, time
from rbp.live.runs import bound
limit, server, folder = float(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
bound(limit, server)
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
def project(tmp_path) -> Project:
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
def script(tmp_path) -> tuple[str, ...]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return sys.executable, str(path)


@pytest.fixture
def runs(project, script) -> Iterator[Runs]:
    runs = Runs(project, at_once=1, command=script, most=3)
    yield runs
    runs.close()


def ended(runs: Runs, name: str) -> Run:
    until = time.monotonic() + 60
    while (run := runs.get(name)).state not in ENDED:
        assert time.monotonic() < until, run
        time.sleep(0.02)
    return run


class Browser:
    """Asks a server as a browser would, or as none would."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.cookie = self.key = ""

    def __call__(
        self, method: str, path: str, body: Any = None, *, drop: tuple[str, ...] = (), **other: str
    ) -> tuple[int, Any]:
        host = f"127.0.0.1:{self.live.port}"
        headers = {"Host": host, "Cookie": self.cookie, "X-RBP-Key": self.key}
        if method not in ("GET", "HEAD"):
            headers["Origin"] = f"http://{host}"
        headers |= {name.replace("_", "-"): value for name, value in other.items()}
        headers = {name: value for name, value in headers.items() if name not in drop}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.live.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if data is not None and "Content-Length" not in headers:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            text = answer.read()
            self.headers = answer.headers
            return answer.status, json.loads(text) if "json" in answer.headers.get("content-type", "") else text
        finally:
            connection.close()

    def enter(self) -> "Browser":
        status, _ = self("GET", self.live.address.partition(str(self.live.port))[2])
        assert status == 303
        self.cookie = self.headers["set-cookie"].partition(";")[0]
        self.key = self.headers["location"].partition("#")[2]
        return self


@pytest.fixture
def live(project, runs) -> Iterator[Live]:
    listening = socket.create_server(("127.0.0.1", 0))
    live = Live(project, "127.0.0.1", listening.getsockname()[1], runs, lambda address: None)
    server = live.server()
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
    yield live
    server.should_exit = True  # it takes a fifth of a second, for which no test need wait


@pytest.fixture
def reader(live) -> Browser:
    return Browser(live).enter()
