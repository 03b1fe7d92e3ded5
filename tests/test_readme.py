"""The commands and programs of the README and the guide, in their order, and what they say of a wheel."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import transformers
from checkout import checked_in
from tiny import SHAPE, WORDS, save_model, texts, write_texts
from typer.main import get_command

from companion.project import ROOT
from rbp.cli.app import app
from rbp.measurements import open_source, select

PAGES = (ROOT / "README.md").read_text() + (ROOT / "docs" / "guide.md").read_text()
README = PAGES.replace("\\\n", "")  # a command over two lines is one
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
HOURS = re.compile("#.*hours, and a network")  # a block that begins so is left out
AWAY = re.compile("#.*(where there is a network|built book)")  # and so is a line
EXTRAS = (
    "IPython papermill snakemake jupyter_book myst_nb nbformat math_core bs4 typst starlette uvicorn peft gguf lm_eval"
)

# Each command line in turn in one process, without the modules of the extras: how it ended, and where rbp lies.
ONE_AFTER_THE_OTHER = f"""
import json, sys
sys.modules.update(dict.fromkeys({EXTRAS.split()}))
import importlib.metadata
real = importlib.metadata.entry_points  # less those of the companion, which is installed where tests run
importlib.metadata.entry_points = lambda **of: real(group="") if of.get("group", "rbp.")[:4] == "rbp." else real(**of)
import rbp
from rbp.cli import main
print(rbp.__file__)
for command in json.loads(sys.argv[1]):
    sys.argv = ["rbp", *command]
    try:
        main()
    except SystemExit as end:
        print("exit", end.code or 0, flush=True)
"""


def commands():
    """The lines of the blocks that call rbp, with their comments; of a block that begins with what is away, none."""
    found = [text.splitlines() for kind, text in BLOCKS if kind == "bash"]
    here = [line for lines in found if not HOURS.search(lines[0]) for line in lines]
    return [line for line in here if line.startswith(".venv/bin/rbp ") and not AWAY.search(line)]


def folder_of_the_readme(folder):
    """A folder in which its commands find what they name."""
    for name in ("data", "studies", "notebooks"):
        (folder / name).symlink_to(ROOT / name)
    program = folder / ".venv" / "bin" / "rbp"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rbp.cli "$@"\n')
    program.chmod(0o755)
    pythia = select(open_source("published").table, family="Pythia")
    pythia.to_csv(folder / "mine.csv", index=False)
    for name, keys in (("answers", ("prompt", "completion")), ("qa", ("question", "answer"))):
        row = dict(zip(keys, ("def add(a, b):\n", "    return a + b\n"), strict=True))
        (folder / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "books").mkdir()
    source = sorted((ROOT / "src" / "rbp").rglob("*.py"))  # text enough for a vocabulary, whatever it is
    for number, path in enumerate(source):
        (folder / "books" / f"{number}.txt").write_text(path.read_text())


def test_every_command_is_one_that_there_is():
    lines = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
    called = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith(".venv/bin/rbp ")]
    assert len(called) > 25
    for arguments in called:
        command, context, left = get_command(app), click.Context(click.Command("rbp")), arguments
        while isinstance(command, click.Group):
            _, command, left = command.resolve_command(context, left)
            context = click.Context(command, context)
        command.make_context("rbp", list(left), parent=context, resilient_parsing=False)


@pytest.mark.slow
def test_the_commands_one_after_the_other_in_one_folder(tmp_path):
    folder_of_the_readme(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = commands()
    assert len(done) > 20
    for line in done:
        line = line.replace("study run", "study run --profile local")  # a machine may have Slurm's programs alone
        ran = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.long
def test_its_program_runs(tmp_path, monkeypatch, capsys):
    folder_of_the_readme(tmp_path)
    monkeypatch.chdir(tmp_path)
    for program in (text for kind, text in BLOCKS if kind == "python"):
        exec(compile(program, "README.md", "exec"), {})  # noqa: S102  # our own
    assert "0.079414" in capsys.readouterr().out
    assert (tmp_path / "runs" / "law.png").is_file()


def build_wheel(folder):
    """A wheel of what lies here, built aside."""
    for name in checked_in():
        if name.startswith(("src/", "pyproject", "docs/library.md", "LICENSE")):
            (folder / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "sources" / name)
    build = [sys.executable, "-m", "uv", "build", "--wheel", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*build, "--out-dir", folder, folder / "sources"], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.long
def test_a_wheel_works_in_an_empty_folder_without_the_extras(tmp_path):
    """Unpacked: rbp alone, and its one command, without what a base installation does not bring."""
    away, here = tmp_path / "away", tmp_path / "here"
    here.mkdir()
    shutil.unpack_archive(build_wheel(tmp_path), away, "zip")
    assert {path.name for path in away.iterdir() if not path.name.endswith(".dist-info")} == {"rbp"}
    (entries,) = away.glob("*.dist-info/entry_points.txt")
    assert "[console_scripts]\nrbp = rbp.cli:main" in entries.read_text()
    sizes = ["SMALL", "MEDIUM", "LARGE"]
    for layers, name in enumerate(sizes, 1):
        save_model(here / name, transformers.GPT2Config(**SHAPE | {"num_hidden_layers": layers}))
    write_texts(here / "text.jsonl", texts(4))
    assert {"Snakefile", "profiles"} <= {path.name for path in (away / "rbp" / "study").iterdir()}
    named = {"MODEL": "SMALL", "ORIGINAL": "runs/ranks", "QUANTIZED": "runs/other"}
    page = [line[4:] for line in (ROOT / "docs/library.md").read_text().splitlines() if line.startswith("rbp ")]
    lines = {line.split()[0]: [named.get(word, word) for word in shlex.split(line, comments=True)] for line in page}
    works = [
        lines["extract"],
        ["extract", "--model", "LARGE", "--corpus", "text.jsonl", "--out", "runs/other"],
        lines["ranks"],
        lines["compare"],
        ["ranks", "rm", "runs/ranks", "--yes"],  # a model is not measured in two ways
        lines["law"],
        ["fit", "runs/ranks", "--dataset", "text", "--family", "gpt2", "--k", "100"],
    ]
    lacks = [lines["lm-eval"], ["run", "holds"], ["law", "ladder:all", "-k", "1"]]
    code = f"{ONE_AFTER_THE_OTHER}print(rbp.rank('SMALL', [{' '.join(WORDS)!r}]).rbp(320))"
    ran = subprocess.run(
        [sys.executable, "-c", code, json.dumps([*works, *lacks])],
        cwd=here, env=os.environ | {"PYTHONPATH": str(away)}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout.splitlines()
    assert Path(printed[0]) == away / "rbp" / "__init__.py"
    endings = [line for line in printed if line.startswith("exit")]
    assert endings == ["exit 0"] * len(works) + ["exit 2"] * len(lacks), ran.stderr
    assert printed[-1] == "1.0"
    assert "lm-eval is not installed (rbp lm-eval)\npip install 'rbp-ranks[lm-eval]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert {path.name for path in here.iterdir()} == {"runs", "text.jsonl", *sizes}
