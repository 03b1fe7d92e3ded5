"""A machine without a network. Every process is watched: what tries to leave the machine is refused and
noted, where Hugging Face's own switch for offline work is off."""

import os
import re
import subprocess
import sys
from pathlib import Path

import mini
import pytest

from companion.project import ROOT, Project

pytestmark = pytest.mark.builds

GUARD = """
import os, socket

def outside(address):
    host = address[0] if isinstance(address, tuple) else ""
    return isinstance(address, tuple) and host not in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", None)

def refuse(what):
    with open(os.environ["RBP_TEST_NOTED"], "a") as noted:
        noted.write(f"{what}\\n")
    raise OSError(101, "Network is unreachable")

class Guarded(socket.socket):
    def connect(self, address):
        refuse(address) if outside(address) else super().connect(address)
    def connect_ex(self, address):
        return refuse(address) if outside(address) else super().connect_ex(address)

lookup = socket.getaddrinfo
def getaddrinfo(host, *more, **options):
    if host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", None, b"127.0.0.1"):
        return lookup(host, *more, **options)
    try:
        refuse(host)
    except OSError:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution") from None

socket.socket, socket.getaddrinfo = Guarded, getaddrinfo
"""


@pytest.fixture
def guarded(tmp_path: Path):
    """guarded(*command): runs it without a network; gives the finished process and what tried to leave."""
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    noted = tmp_path / "noted.txt"

    def run(*arguments: str, project: Path | None = None) -> "tuple[subprocess.CompletedProcess[str], str]":
        noted.write_text("")
        path = os.pathsep.join([str(tmp_path / "guard"), str(ROOT / "src")])
        environment = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
        environment |= {"PYTHONPATH": path, "RBP_TEST_NOTED": str(noted), "HF_HOME": str(tmp_path / "hub")}
        environment.pop("HF_HUB_OFFLINE", None)
        command = [sys.executable, "-m", "rbp.cli", *(["--root", str(project)] if project else []), *arguments]
        done = subprocess.run(command, cwd=project or tmp_path, env=environment, capture_output=True, text=True)
        return done, noted.read_text()

    return run


def test_a_chapter_runs_and_nothing_tries_to_leave(guarded, tmp_path):
    project = Project(tmp_path / "book")
    mini.write_book(project)
    cell = "from rbp.measurements import open_source\nvalue = len(open_source('published').table)"
    mini.write_chapter(project, "02_b", "%%md Words.", cell)  # one that reads real data
    done, noted = guarded("run", "2", "--out", "out", project=project.root)
    assert (done.returncode, noted) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["study", "run", "study.toml", "--profile", "local"], "the corpus is not on this machine"),
        (["extract", "--model", "gpt2", "--corpus", "corpus.txt"], "the model is not on this machine"),
    ],
    ids=["study", "extract"],
)
def test_what_needs_a_network_names_the_remedy_before_any_work(guarded, model, tmp_path, arguments, says):
    (tmp_path / "corpus.txt").write_text("some text")
    (tmp_path / "study.toml").write_text(f'models = ["{model}"]\ncorpora = ["humaneval"]\noutput = "out"\n')
    done, noted = guarded(*arguments, *([] if "study" in arguments else ["--out", str(tmp_path / "out")]))
    assert done.returncode == 2, done.stderr
    assert noted, "it asks for the network, and is seen to"
    assert "Traceback" not in done.stderr
    (error,) = re.findall(r"^error: .*(?:\n.*)?\Z", done.stderr.strip(), re.MULTILINE)
    assert says in error
    assert re.search(r"(Connect|Check|Give)[^\n]*\.$", error)
    assert not list((tmp_path / "out").glob("*"))
