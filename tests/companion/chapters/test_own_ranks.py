"""Every chapter that can take ranks, on a reader's own stores in folders that are named like what is shipped.

The cells are executed in this process, and figures are not drawn: the point is whose numbers a chapter records.
"""

import json

import pytest
from own_sources import paths, stores

from companion.page import Page
from companion.project import Project
from companion.run import all_chapters, find
from companion.steps import TABLES
from rbp import provenance

FOLDERS = ("myladder", "published2", "ladder")
MINE = "myladder/ranks, published2, ./ladder"
QUICK = {"forecasts": {"draws": 100}, "noise": {"resamples": 100}}
PUBLISHED_ONLY = {"data"}  # it is about the authors' numbers, and refuses others
TAKING = [c.name for c in all_chapters(Project()) if {p.name for p in c.parameters} & {"measurements", "ranks"}]
BESIDE = {"elsewhere": "data/ladder/families"}  # it sets all sources side by side
#: the steps that a chapter reads whatever is given to it: they are of what is shipped
STEPS = {"elsewhere": ["ladder_counts"], "emergence": ["real_windows"], "lognormal": ["real_fits"]}
SHIPPED_DATA = ("data/ladder/families-ranks", "data/ladder/families-sums")


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A folder with six models of one family on Wikipedia, two in each of FOLDERS."""
    root = tmp_path_factory.mktemp("mine")
    stores(root, place=lambda i: f"{FOLDERS[i // 2]}{'/ranks' * (i < 2)}/store-{i}")
    return root


def recorded(name, out, monkeypatch):
    """What the chapter writes as results.json with MINE as its measurements and its ranks."""
    chapter = find(Project(), name)
    given = {p.name: MINE for p in chapter.parameters if p.name in ("measurements", "ranks")} | QUICK.get(name, {})
    if name == "cross_entropy":  # what is made worse is shown beside the reader's, whatever they are
        paths(out / "worse")
        given["worse"] = str(out / "worse")
    (out / name).mkdir(parents=True)
    monkeypatch.setenv("RBP_OUT", str(out))
    steps = [Project().steps / f"{step}.parquet" for step in STEPS.get(name, [])]
    if all(path.exists() for path in steps):  # computed anew they take 15 seconds
        monkeypatch.setenv(TABLES, str(Project().steps))
    for shown in ("figure", "table", "show", "download"):
        monkeypatch.setattr(Page, shown, lambda *_, **__: None)
    variables: dict = {}
    with provenance.recording():
        for cell in chapter.notebook["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), variables)  # noqa: S102
                if "parameters" in cell["metadata"].get("tags", []):
                    variables |= given
    return json.loads((out / "results.json").read_text())


@pytest.mark.builds
@pytest.mark.parametrize("name", [name for name in TAKING if name not in PUBLISHED_ONLY])
def test_nothing_that_is_shipped_is_recorded_as_the_readers(name, mine, tmp_path, monkeypatch):
    monkeypatch.chdir(mine)
    found = recorded(name, tmp_path, monkeypatch)
    assert found["steps"] == STEPS.get(name, [])
    shipped = [path for path in found["reads"] if path.startswith(SHIPPED_DATA)]
    assert all(name in BESIDE and path.startswith(BESIDE[name]) for path in shipped)
    assert sum(path.startswith(str(mine)) for path in found["reads"]) == 6
