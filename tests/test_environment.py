"""The pins, and the files that describe the project, hold together."""

import re
import subprocess
import tomllib
from importlib.metadata import version
from itertools import chain

import pytest
import yaml
from checkout import checked_in

from companion.project import ROOT
from rbp.errors import DISTRIBUTION, install_extra

LOCKS = "requirements.lock", "requirements-checks.lock", "requirements-torch.lock"
LOCKED, CHECKS, TORCH = ((ROOT / name).read_text() for name in LOCKS)
PIN = r"([a-z0-9.-]+)==([\w.]+)( ; [\w.'<>=!()* -]*[\w')])?"
#: name, version and where it is needed, of each package, in their order
HASHED = LOCKED + CHECKS
PINS, TORCH_PINS = ([match[0] for match in re.finditer(rf"^{PIN}", text, re.MULTILINE)] for text in (HASHED, TORCH))
LOCK = dict(pin.split(" ;")[0].split("==", 1) for pin in PINS + TORCH_PINS)


def test_the_lock_is_pins_with_hashes_and_nothing_else():
    """No address, no path, no package without a hash; but for torch and CUDA, which are apart."""
    assert re.fullmatch(rf"({PIN}( \\\n    --hash=sha256:[0-9a-f]{{64}})+\n)+", HASHED)
    assert re.fullmatch(rf"({PIN}\n)+", TORCH)
    assert [pin for pin in PINS + TORCH_PINS if re.match("torch==|nvidia-|cuda-", pin)] == TORCH_PINS


def test_what_is_installed_is_compared_with_its_hash():
    """By what `make` would run: uv, then with it all at once, and what these need is not looked for."""
    dry = ["make", "--dry-run", "--always-make", ".venv/installed"]
    said = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = re.split(r" & torch=\$!; \\\n| && (?:\\\n|wait)|\n", said)
    chosen, uv, pinned, project, torch = [each for each in commands if re.search(" pip .*(install|download) ", each)]
    assert uv.endswith("--require-hashes --no-deps --requirement .venv/uv.lock")
    assert pinned.endswith(
        "--require-hashes --no-deps --requirement requirements.lock --requirement requirements-checks.lock"
    )
    assert chosen.endswith("download --no-deps --constraint requirements-torch.lock --dest .venv/torch torch")
    assert torch.endswith("--constraint requirements-torch.lock .venv/torch/*.whl")
    assert project.endswith("--no-deps --editable . --editable src")


def test_environment_yml_has_the_same_pins_and_both_packages_of_the_checkout():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pinned,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pinned[:2] == ["-e .", "-e ./src"]
    assert sorted(pinned[2:]) == sorted(PINS + [pin for pin in TORCH_PINS if pin.startswith("torch==")])


def test_actions_are_pinned_by_commit():
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    used = [action for text in workflows for action in re.findall(r"uses: (.*)", text)]
    pinned = {re.fullmatch(r"([\w/-]+)@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)[1]: action for action in used}
    assert set(pinned.values()) == set(used), "one commit of each"


def test_the_workflow_runs_the_test_command_of_the_readme():
    assert re.search(r"^ +- run: \.ci/run$", (ROOT / ".github" / "workflows" / "book.yml").read_text(), re.MULTILINE)
    for file in ("README.md", ".ci/run"):
        assert re.search(r"^(check )?make test\b", (ROOT / file).read_text(), re.MULTILINE), file


@pytest.mark.parametrize("folder", [".", "src"])
def test_what_the_packages_need_is_pinned_and_installed(folder):
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for need in chain(project["dependencies"], *project["optional-dependencies"].values()):
        name = re.match(r"[\w.-]+", need)[0].lower()
        if name not in ("rbp", "mutmut"):  # which is not locked
            assert version(name).split("+")[0] == LOCK[name], name


def test_whoever_follows_an_instruction_installs_this_project():
    """`rbp` on PyPI is another project's: messages and pages name the distribution as pyproject.toml does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    pages = [name for name in checked_in() if name.startswith(("src/", "docs/", "book/", "notebooks/", "README"))]
    texts = {name: (ROOT / name).read_bytes().decode("utf-8", "ignore") for name in pages}
    said = {name: re.findall(r"pip install '?(rbp[\w.-]*)(?:\[([\w-]+)\])?", text) for name, text in texts.items()}
    found = {name: pairs for name, pairs in said.items() if pairs}
    assert {"docs/guide.md", "docs/library.md"} <= set(found)
    for name, pairs in found.items():
        for distribution, extra in pairs:
            assert distribution.startswith(("rbp_ranks-", DISTRIBUTION)), name
            assert not extra or extra in project["optional-dependencies"], name
    assert install_extra("gguf") == "pip install 'rbp-ranks[gguf]'"


def test_the_page_of_the_index_stands_alone():
    """Its links work outside the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / project["readme"]).read_text()
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert links
    assert all(link.startswith("https://") for link in links)


def test_no_machine_of_ours_is_named():
    """No absolute path of a home or of this checkout in what is committed."""
    for name in checked_in():
        content = (ROOT / name).read_bytes()
        assert f"{ROOT}/".encode() not in content, name
        assert not re.search(rb"/(home|Users)/\w+/|/r[o]ot/", content), name


def test_what_contributing_names_is_there():
    """Files and folders of its tables; of the way from a number to a sentence, the functions too."""
    walked = 0
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        if not line.startswith("|"):
            continue
        names, files = re.findall(r"(?<!`)`([\w./]+)`(?!`)", line), []
        for name in names:
            if name.endswith((".py", ".csv", ".toml", ".md", ".typ", ".js", "/")) and "NAME" not in name:
                places = [ROOT / "src" / name, ROOT / name, *(file.parent / name for file in files[-1:])]
                there = [place for place in places if place.exists()]
                assert there or name.startswith("_build"), f"{name} in {line}"
                files += there[:1]
        if re.match(r"\| [1-8] \|", line):
            walked += 1
            code = "".join(file.read_text() for file in files if file.suffix == ".py")
            called = [name for name in names if re.fullmatch(r"_?[A-Za-z]+[_.]\w+", name)]
            called = [name for name in called if not name.endswith((".py", ".json"))]
            for part in (part for name in called for part in name.split(".")):
                assert re.search(rf"(def|class) {part}\b", code), f"{part} in {line}"
    assert walked == 8
