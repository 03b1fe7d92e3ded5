"""Programs that the build's server starts: as without it, and nothing is left of them."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from draws import rest_slow
from mini import outputs, write_chapter

from rbp.book import workers
from rbp.book.build import build
from rbp.core.files import lock
from rbp.core.paths import ROOT, Project

pytestmark = [
    pytest.mark.builds,
    pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere"),
]

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}
TARGET = ["_build/results.json"]

#: A cell that shows what a program may see of how it was started, and what the server's imports could have changed.
LOOK = """
    import gc, logging, multiprocessing, os, pathlib, signal, sys
    pathlib.Path("server").write_bytes(pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_bytes())
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd
    own = ("RBP_OUT", "IPYTHONDIR", "JPY_PARENT_PID", "RBP_WORKERS", "SHLVL")
    shown = [sys.argv[0], sys.path, os.getcwd(), __name__, sys.flags, gc.get_threshold(), hash("a"), {"b", "a", "c"}]
    shown += [{name: value for name, value in sorted(os.environ.items()) if name not in own}]
    shown += [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]
    shown += [os.getsid(0) == os.getpid(), os.read(0, 9), multiprocessing.active_children()]
    shown += [logging.getLogger().handlers, logging.getLogger().level, plt.get_backend()]
    shown += [{name: value for name, value in plt.rcParams.items() if value != plt.rcParamsDefault[name]}]
    print(*shown, sep="\\n")
    value = 1
"""
PLOT = "plt.plot([1, 2]);"


def one_chapter(folder: Path, *cells: str) -> Project:
    project = Project(folder)
    write_chapter(project, "01_a", *cells)
    project.book.mkdir()
    for name in ("_config.yml", "CITATION.cff"):
        (project.root / name).touch()
    return project


def running(root: Path) -> list[psutil.Process]:
    """The processes that work on a project."""
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if any(str(root) in word for word in each.info["cmdline"] or [])
    ]


def wait_for(condition: Callable[[], object], seconds: float = 100) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def wait_for_the_end(project: Project) -> None:
    """Wait until nobody works on a project; a process that ends holds its files for a moment longer."""
    wait_for(lambda: not running(project.root), 30)
    with (project.build / ".lock").open() as stream:
        wait_for(lambda: lock(stream), 30)


def test_a_chapter_from_the_server_is_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = one_chapter(tmp_path, LOOK, PLOT)
    notebook = project.chapters / "01_a" / "01_a.ipynb"
    assert build(project, 1, TARGET)
    assert b"rbp.book.workers" in (tmp_path / "server").read_bytes()
    served = notebook.read_text()
    shutil.rmtree(project.build)
    monkeypatch.setattr(workers, "serving", lambda command, modules: command)
    assert build(project, 1, TARGET)
    assert b"rbp.book.workers" not in (tmp_path / "server").read_bytes().replace(b"rbp.book.workers\0rbp.cli", b"")
    assert served.splitlines() == notebook.read_text().splitlines()
    assert "image/png" in served


def test_random_numbers_without_a_seed_differ_and_an_error_of_the_package_is_carried_out_of_the_kernel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cell = "from rbp.core.errors import DataError\nraise DataError('no cross-entropy', 'x.csv', 'Add it.')"
    project = one_chapter(tmp_path, cell)
    for name in ("02_b", "03_c"):
        write_chapter(
            project, name, "import random, numpy as np\nprint(random.random(), np.random.random())\nvalue = 1"
        )
    assert not build(project, 1)
    assert "[1/3] 01_a failed: no cross-entropy (x.csv)\nAdd it.\n" in capfd.readouterr().out
    one, other = (outputs(project.chapters / name / f"{name}.ipynb").split() for name in ("02_b", "03_c"))
    assert len({*one, *other}) == 4


#: a cell that kills a process of the build: the job, the program that executes the chapter for it, …
KILL = """
    import os, psutil, time
    server, kernel = psutil.Process(os.getppid()), psutil.Process()
    [program] = [each for each in server.children() if each.cmdline() == server.cmdline() and each != kernel]
    [job] = [each for each in server.children(recursive=True) if each.cmdline()[2:4] == ["rbp.book.workers", "rbp.cli"]]
    {which}.kill()
    time.sleep(300)
"""


@pytest.mark.parametrize(
    ("which", "says"),
    rest_slow(
        [("program", r"SIGKILL ended rbp.cli --root \S+ _chapter 01_a")],
        [(each, "The book is not complete") for each in ("server", "job")]
        + [("kernel", "01_a failed at cell 2: Kernel died")],
    ),
)
def test_a_killed_process_is_named_and_takes_the_rest_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], which: str, says: str
) -> None:
    project = one_chapter(tmp_path, KILL.format(which=which))
    assert not build(project, 1)
    said = capfd.readouterr()
    assert re.search(says, said.out + said.err)
    wait_for_the_end(project)
    write_chapter(project, "01_a", "value = 1")
    assert build(project, 1, TARGET)


def test_nothing_is_left_of_a_build_that_is_killed(tmp_path: Path) -> None:
    project = one_chapter(tmp_path / "p", "import pathlib, time\npathlib.Path('started').touch()\ntime.sleep(300)")
    command = [sys.executable, "-m", "rbp.cli", "--root", str(project.root), "book"]
    driver = subprocess.Popen(command, cwd=project.root, env=ENVIRONMENT)
    wait_for((project.root / "started").exists)
    assert len(running(project.root)) >= 6  # rbp book, the server, Snakemake, the job, its program, the kernel
    driver.kill()
    driver.wait()
    wait_for_the_end(project)
    assert [path for path in project.chapters.rglob("*") if path.is_file()] == []
    write_chapter(project, "01_a", "value = 1")
    assert build(project, 1, TARGET)


PROGRAM = """
import os, sys
print(sys.argv[1:], __name__, os.getcwd(), os.environ["WORD"], "colorsys" in sys.modules)
sys.exit(3)
"""


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """The environment in which `python -m program` says how it was started, and ends with 3."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=[99], daemon=True).start()"
    )
    return ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(tmp_path)]), "WORD": "ä b"}


ASK = [sys.executable, "-m", "rbp.book.workers", "program", "one", "two words"]
FORKED = "['one', 'two words'] __main__ {} ä b True\n"
AS_EVER = "['one', 'two words'] __main__ {} ä b False\n"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([sys.executable, "-m", "rbp.book.workers", "--serve", "colorsys,no_such_module"], FORKED),
        ([sys.executable, "-m", "rbp.book.workers", "--serve", "colorsys,threads"], AS_EVER),
        ([sys.executable, "-m", "rbp.book.workers", "--serve", "colorsys", "/usr/bin/setsid", "--wait"], AS_EVER),
        ([], AS_EVER),
        (["/usr/bin/env", "RBP_WORKERS=rbp-of-another-machine"], AS_EVER),
    ],
    ids=["served", "a thread in the server", "of another session", "no server", "no server any more"],
)
def test_a_program_starts_from_the_server_or_as_ever(
    tmp_path: Path, program: dict[str, str], before: list[str], said: str
) -> None:
    done = subprocess.run(
        [*before, *ASK], env=program, cwd=tmp_path, capture_output=True, text=True, start_new_session=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, said.format(tmp_path), "")


def test_a_program_ends_with_the_one_who_asked_for_it(tmp_path: Path, program: dict[str, str]) -> None:
    (tmp_path / "program.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(300)")
    ask = f"import os, subprocess\nasks = subprocess.Popen({ASK!r}, stdout=subprocess.PIPE, text=True)\n"
    ask += "print(asks.stdout.readline(), flush=True)\nasks.kill()\nasks.wait()"
    command = [sys.executable, "-m", "rbp.book.workers", "--serve", "json", sys.executable, "-c", ask]
    start = time.monotonic()
    done = subprocess.run(
        command, env=program, cwd=tmp_path, capture_output=True, text=True, start_new_session=True, check=True
    )
    assert time.monotonic() - start < workers.GRACE
    assert not psutil.pid_exists(int(done.stdout))


def test_a_program_that_does_not_end_is_killed(tmp_path: Path, program: dict[str, str]) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code += "print('so far', flush=True)\ntime.sleep(300)"
    (tmp_path / "program.py").write_text(code)
    ask = f"import subprocess\nasks = subprocess.Popen({ASK!r}, stdout=subprocess.PIPE, text=True)\n"
    ask += "asks.stdout.readline()\nasks.kill()\nasks.wait()"
    serve = "import sys\nfrom rbp.book import workers\nworkers.GRACE = 1\n"
    serve += "sys.argv[1:1] = ['--serve', 'json']\nworkers.main()"
    command = [sys.executable, "-c", serve, sys.executable, "-c", ask]
    assert subprocess.run(command, env=program, cwd=tmp_path, start_new_session=True, timeout=60, check=True)


SERVED = """
import os, subprocess, sys
from rbp.book import workers
with workers.served(["colorsys"]):
    ran = subprocess.run({ask!r}, capture_output=True, text=True)
    {then}
print(ran.returncode, ran.stdout, workers.ADDRESS in os.environ)
"""


def test_a_process_is_served_while_it_asks_for_it_and_a_crash_is_the_programs_own(
    tmp_path: Path, program: dict[str, str]
) -> None:
    (tmp_path / "crash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    crash = [*ASK[:3], "crash"]
    then = f"crashed = subprocess.run({crash!r}).returncode; again = subprocess.run({ASK!r}).returncode"
    code = SERVED.format(ask=ASK, then=then) + "print(crashed, again)"
    done = subprocess.run([sys.executable, "-c", code], env=program, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{FORKED.format(tmp_path)}3 {FORKED.format(tmp_path)} False\n1 3\n", done.stderr
    assert done.stderr == "SIGKILL ended crash\n"


def test_a_server_ends_with_the_process_that_it_serves(tmp_path: Path, program: dict[str, str]) -> None:
    code = f"import time\nfrom rbp.book import workers\nwith workers.served(['{tmp_path}']):\n"
    code += "    print('served', flush=True)\n    time.sleep(300)"
    driver = subprocess.Popen([sys.executable, "-c", code], env=program, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "served\n"
    assert len(running(tmp_path)) == 2
    driver.kill()
    driver.wait()
    wait_for(lambda: not running(tmp_path), 30)
