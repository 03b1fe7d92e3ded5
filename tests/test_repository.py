"""What is installed is pinned, and only the project publishes."""

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

HASHED = "".join((ROOT / name).read_text() for name in ("requirements.lock", "requirements-checks.lock"))
TORCH = (ROOT / "requirements-torch.lock").read_text()
PIN = r"([a-z0-9.-]+)==([\w.]+)( ; [\w.'<>=!()* -]*[\w')])?"
#: name, version and where it is needed, of each package, in their order
PINS, TORCH_PINS = ([match[0] for match in re.finditer(rf"^{PIN}", text, re.MULTILINE)] for text in (HASHED, TORCH))
WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_lock_is_pins_with_hashes_which_are_compared():
    """No address, no path, no package without a hash; but for torch and CUDA, which are apart."""
    assert re.fullmatch(rf"({PIN}( \\\n    --hash=sha256:[0-9a-f]{{64}})+\n)+", HASHED)
    assert re.fullmatch(rf"({PIN}\n)+", TORCH)
    assert [pin for pin in PINS + TORCH_PINS if re.match("torch==|nvidia-|cuda-", pin)] == TORCH_PINS
    dry = ["make", "--dry-run", "--always-make", ".venv/installed"]
    said = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    from_locks = re.findall(r"(\S+) --no-deps --requirement (\S+)", said)
    assert from_locks == [("--require-hashes", ".venv/uv.lock"), ("--require-hashes", "requirements.lock")]


def test_environment_yml_has_the_same_pins_and_both_packages_of_the_checkout():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pinned,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pinned[:2] == ["-e .", "-e ./src"]
    assert sorted(pinned[2:]) == sorted(PINS + [pin for pin in TORCH_PINS if pin.startswith("torch==")])


@pytest.mark.parametrize("folder", [".", "src"])
def test_what_the_packages_need_is_pinned_and_installed(folder):
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    lock = dict(pin.split(" ;")[0].split("==", 1) for pin in PINS + TORCH_PINS)
    for need in chain(project["dependencies"], *project["optional-dependencies"].values()):
        name = re.match(r"[\w.-]+", need)[0].lower()
        if name not in ("rbp", "mutmut"):  # which is not locked
            assert version(name).split("+")[0] == lock[name], name


def test_whoever_follows_an_instruction_installs_this_project():
    """`rbp` on PyPI is another project's: messages and pages name the distribution as pyproject.toml does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    assert install_extra("gguf") == "pip install 'rbp-ranks[gguf]'"
    for name in checked_in():
        if name.startswith(("src/", "docs/", "book/", "notebooks/", "README")):
            text = (ROOT / name).read_bytes().decode("utf-8", "ignore")
            for distribution, extra in re.findall(r"pip install '?(rbp[\w.-]*)(?:\[([\w-]+)\])?", text):
                assert distribution.startswith(("rbp_ranks-", DISTRIBUTION)), name
                assert not extra or extra in project["optional-dependencies"], name


def test_only_the_project_publishes_a_push_by_actions_pinned_by_commit_and_without_a_stored_secret():
    texts = {path.stem: path.read_text() for path in WORKFLOWS.glob("*.yml")}
    used = [action for text in texts.values() for action in re.findall(r"uses: (.*)", text)]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in used)
    assert "secrets." not in "".join(texts.values())
    condition = yaml.safe_load(texts["book"])["jobs"]["publish"]["if"]
    for part in ("refs/heads/main", "github.event_name == 'push'", "!github.event.repository.fork"):
        assert part in condition
    release = yaml.safe_load(texts["release"])
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML takes "on" for a truth value
    assert release["permissions"] == {"contents": "read"}


def test_no_machine_of_ours_is_named():
    """No absolute path of a home or of this checkout in what is committed."""
    for name in checked_in():
        content = (ROOT / name).read_bytes()
        assert f"{ROOT}/".encode() not in content, name
        assert not re.search(rb"/(home|Users)/\w+/|/r[o]ot/", content), name
