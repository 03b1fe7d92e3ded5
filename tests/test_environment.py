"""The pins, and the files that describe the project, hold together."""

import re
import subprocess
import tomllib
from importlib.metadata import version

import yaml

from rbp import __version__
from rbp.core.paths import ROOT


def _lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(line.split(" ;")[0].split("==", 1) for line in lines)


def test_every_line_of_the_lock_is_one_pin() -> None:
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ; sys_platform == 'linux')?", line), line


def test_environment_yml_has_the_same_pins() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pinned,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pinned == (ROOT / "requirements.lock").read_text().splitlines()


def test_what_the_package_needs_is_pinned_and_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = _lock()
    for need in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        name = re.match(r"[\w.-]+", need)[0].lower()
        assert name in lock, f"{name} is not in requirements.lock: make lock"
        assert version(name).split("+")[0] == lock[name], name


def test_the_book_stays_on_jupyter_book_1() -> None:
    assert _lock()["jupyter-book"].startswith("1.")


def test_citation_and_changelog_name_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert "2510.20387" in str(citation["references"])
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_workflow_runs_what_the_readme_says() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
    steps = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps
    command = re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert command
    assert re.search(r"^make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_no_machine_of_ours_is_named() -> None:
    """No absolute path of a home or of this checkout in what is committed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        assert f"{ROOT}/".encode() not in content, name
        assert not re.search(rb"/(home|Users)/\w+/|/r[o]ot/", content), name


def test_the_first_page_tells_how_to_cite_as_the_citation_file_does() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    page = " ".join((ROOT / "book" / "welcome.md").read_text().split())
    (paper,) = citation["references"]
    assert f"title = {{{citation['title']}}}" in page
    assert f"title = {{{paper['title']}}}" in page
    assert " and ".join(f"{one['family-names']}, {one['given-names']}" for one in paper["authors"]) in page
    released = citation["date-released"]
    assert f"Version {citation['version']}, {released}, {citation['license']} licence" in page
    assert f"year = {{{released.year}}}" in page
    assert paper["url"] in page
