"""The check of every change, and the workflow that runs it."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from companion.project import ROOT

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
TRIGGERS = WORKFLOW[True]  # YAML takes "on" for a truth value


@pytest.fixture
def run_ci(tmp_path):
    """Runs .ci/run with programs that only note how they were called, and fail where they are told to."""
    programs = {"bin": ("make", "chromium-headless-shell", "chromium", "apt-get", "sudo"), ".venv/bin": ("uv", "rbp")}
    for folder, names in programs.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            path = tmp_path / folder / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>calls\ncase "{name} $*" in $FAIL) exit 1;; esac\n')
            path.chmod(0o755)
    for name in ("env", "bash", "sh", "dirname", "id"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")

    def run(failing, without=()):
        for name in without:
            (tmp_path / "bin" / name).unlink()
        environment = {"PATH": str(tmp_path / "bin"), "FAIL": failing}
        done = subprocess.run([tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True)
        return done, (tmp_path / "calls").read_text().splitlines()

    return run


def test_all_checks_pass(run_ci):
    done, calls = run_ci("none")
    assert done.returncode == 0, done.stderr
    assert [call for call in calls if call.startswith("make")] == [
        f"make {target}" for target in (".venv/installed", "lint", "test", "smollm2", "report")
    ]
    assert calls[-1] == "rbp verify"


@pytest.mark.parametrize("failing", ["make lint", "rbp extract *"])
def test_values_are_verified_after_a_red_check_and_the_whole_is_red(run_ci, failing):
    done, calls = run_ci(failing)
    assert calls[-1] == "rbp verify"
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed: ")


def test_what_failed_last_is_red_too(run_ci):
    assert run_ci("rbp verify")[0].returncode == 1


@pytest.mark.parametrize("other", [True, False])
def test_fonts_are_installed_where_the_browser_has_no_package(run_ci, other):
    """As on Ubuntu, where another browser may be there."""
    done, calls = run_ci("apt-get install *chromium*", without=["chromium-headless-shell"] + ["chromium"] * (not other))
    fonts = [call for call in calls if "fonts-dejavu-core" in call]
    assert len(fonts) == 1
    assert "chromium" not in fonts[0]
    assert done.returncode == (not other)
    assert (calls[-1] == "rbp verify") is other


def test_a_branch_is_built_once_and_only_the_project_publishes_a_push():
    assert TRIGGERS["push"]["branches"] == ["main"]
    assert "pull_request" in TRIGGERS
    condition = WORKFLOW["jobs"]["publish"]["if"]
    for part in ("refs/heads/main", "github.event_name == 'push'", "!github.event.repository.fork"):
        assert part in condition


def test_a_tag_publishes_what_has_its_version_without_a_stored_secret(tmp_path):
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    release = yaml.safe_load(text)
    assert release[True] == {"push": {"tags": ["v*"]}}
    assert release["permissions"] == {"contents": "read"}
    assert release["jobs"]["pypi"]["permissions"]["id-token"] == "write"
    assert "secrets." not in text
    steps = [step["run"] for step in release["jobs"]["pypi"]["steps"] if "run" in step]
    (tmp_path / "dist").mkdir()
    for name in ("rbp_ranks-1.2.0.tar.gz", "rbp_ranks-1.2.0-py3-none-any.whl"):
        (tmp_path / "dist" / name).touch()
    (same,) = [step for step in steps if "GITHUB_REF_NAME" in step]
    for tag, right in (("v1.2.0", True), ("v1.2", False), ("v1.2.1", False)):
        ran = subprocess.run(
            ["bash", "-ec", same], cwd=tmp_path, env=os.environ | {"GITHUB_REF_NAME": tag}, check=False
        )
        assert (ran.returncode == 0) is right, tag
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    subprocess.run(["bash", "-ec", steps[0].splitlines()[0]], cwd=tmp_path, check=True)
    pins = (tmp_path / "uv.lock.txt").read_text()
    assert re.findall(r"^[\w.-]+==", pins, re.MULTILINE) == ["uv=="], "one package, with its hashes"
    assert pins.count("--hash=sha256:") > 1


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_issue_forms_are_forms(path):
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "labels", "body"} == set(form)
    for field in form["body"]:
        assert field["type"] in ("input", "textarea")
        assert field["attributes"]["label"]
    assert any(field.get("validations") == {"required": True} for field in form["body"])
