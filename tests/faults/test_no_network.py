"""A machine without a network. What any process tries to reach outside is noted and refused, where Hugging Face's own
switch for offline work is off."""

import os
import subprocess
import sys

import mini
import pytest

from companion.project import ROOT, Project

pytestmark = pytest.mark.long

GUARD = """
import os, socket, sys

def refuse(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if host not in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", None, b"127.0.0.1"):
        with open(os.environ["RBP_TEST_NOTED"], "a") as noted:
            noted.write(f"{host}\\n")
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

sys.addaudithook(refuse)
"""


def test_a_chapter_runs_and_nothing_tries_to_leave(tmp_path):
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    noted, project = tmp_path / "noted.txt", Project(tmp_path / "book")
    mini.write_book(project)
    cell = "from rbp.measurements import open_source\nvalue = len(open_source('published').table)"
    mini.write_chapter(project, "02_b", "%%md Words.", cell)  # one that reads real data
    environment = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    path = os.pathsep.join([str(tmp_path / "guard"), str(ROOT / "src")])
    environment |= {"PYTHONPATH": path, "RBP_TEST_NOTED": str(noted), "HF_HOME": str(tmp_path / "hub")}
    environment.pop("HF_HUB_OFFLINE", None)

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True)

    done = run("-m", "rbp.cli", "--root", str(project.root), "run", "2", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert not noted.exists(), noted.read_text()
    assert run("-c", "import socket; socket.create_connection(('example.org', 80))").returncode == 1
    assert noted.read_text() == "example.org\n", "what tries to leave is seen"
