"""Each chapter on each kind of source: a page without a false number, or a sentence that says what is lacking.

The cells run in this process. Some cheap pairs stay in the loop; the others are `slow`.
"""

import json
import re
import warnings

import in_process
import numpy as np
import pytest
from bs4 import BeautifulSoup
from draws import rest_slow
from own_sources import measured, paths, stores

from companion.execute.page import Page
from companion.execute.run import all_chapters, execute, find
from companion.project import Project
from rbp import provenance
from rbp.errors import DataError, FitError, ParameterError
from rbp.measurements.ranked import usual

pytestmark = pytest.mark.usefixtures("without_kernel")

TAKING = [c.name for c in all_chapters(Project()) if {p.name for p in c.parameters} & {"measurements", "ranks"}]
QUICK = {"noise": {"resamples": 100}}


def flat(t):
    t.loc[(t.family == "A") & (t.dataset == "news") & (t.metric == "neg_log_rbp"), "value"] = 0.5


def zero(t):
    t.loc[(t.model == t.model.iloc[0]) & (t.k == 100), "value"] = 0.0


def one_factor(t):
    own = (t.family == "A") & (t.dataset == "news")
    for k in (10, 100):
        t.loc[own & (t.k == k), "value"] = t.value[own & (t.k == 1)].to_numpy() * 10 / (10 + k)


def rising(t):
    own = t.metric == "neg_log_rbp"
    t.loc[own, "value"] = 1 / t.value[own]


TABLES = {
    "a file": {},
    "one family": {"families": ("A",)},
    "three models": {"sizes": (1e7, 1e8, 1e9)},
    "two models": {"sizes": (1e7, 1e9)},
    "k = 1 alone": {"ks": (1,), "entropy": False},
    "few k": {"ks": (1, 10, 1000), "entropy": False},
    "beyond 100": {"ks": (1000, 20_000, 100_000)},
    "all k": {"ks": (*usual(50_257), 100_000), "families": ("A", "B", "C"), "sizes": np.geomspace(1e8, 1e10, 6)},
    "counted": {"ks": usual(30_000), "tokens": 400_000},
    "counted, three models": {"tokens": 50_000, "entropy": False, "sizes": (1e8, 1e9, 1e10)},
    "the paper's names": {"datasets": ("wikipedia", "humaneval"), "families": ("Pythia", "Own")},
    **{change.__name__: {"change": change} for change in (flat, zero, one_factor, rising)},
}
STORES = {
    "stores": {},
    "a text of one's own": {"datasets": ("mine",)},
    "three stores": {"models": 3},
    "one store": {"models": 1},
    "one document": {"documents": 1},
    "all hits": {"all_hits": True},
}
SOURCES = ["published", "ladder", "ladder:lstm", "ladder:all", *TABLES, *STORES]
REAL = {"few k", "all k", "counted", "counted, three models", "beyond 100"}  # as the stores of real models give them
#: sources that hold all that a chapter needs: of these it makes a page, whatever remedy an error would name
ENOUGH = {
    "holds": {*REAL, "a file", "one family", "three models", "zero", "flat"},
    "elsewhere": REAL,
    "forecasts": {"few k", "all k", "counted", "a file", "one family", "zero", "flat"},
    "cross_entropy": {"all k", "counted", "beyond 100"},
    "noise": {"counted", "counted, three models"},
}
LOOP = [("holds", "few k"), ("ladder", "all hits"), ("forecasts", "zero")]  # what has failed once, where it is cheap
REST = [(name, source) for name in TAKING for source in SOURCES if (name, source) not in LOOP]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The path of each source of one's own, by its name; and models made worse, whatever the source."""
    root = tmp_path_factory.mktemp("own")
    for name, how in TABLES.items():
        measured(**how).to_csv(root / f"{name}.csv", index=False)
    for name, how in STORES.items():
        stores(root / name, **how)
    paths(root / "worse")
    found = {name: str(root / (name if name in STORES else f"{name}.csv")) for name in (*TABLES, *STORES)}
    return found | {"worse": str(root / "worse")}


def parameters(chapter, source, worse):
    given = {"measurements": source, "worse": worse} | QUICK.get(chapter.name, {})
    if not source.endswith(".csv"):  # a table has no ranks, and then those of the book are shown
        given["ranks"] = source
    return {p.name: given[p.name] for p in chapter.parameters if p.name in given}


def wrong(page, recorded):
    """What no reader should meet on the page: not a number, and tables without a row."""
    texts = [part.get_text() for part in page.select("td, figcaption, p")]
    texts += [f"{key} = {each['value']}" for key, each in recorded.items()]
    found = [text for text in texts if re.search(r"\b(nan|NaN|None(?! of \d)|NaT|inf)\b|<NA>", text)]
    found += [str(each["id"]) for each in page.select("figure") if "nan" in str(each.select("svg path")).lower()]
    return found + ["an empty table" for each in page.select("table.rbp-table") if not each.select("tbody tr")]


@pytest.mark.parametrize(("chapter", "source"), rest_slow(LOOP, REST))
def test_a_page_or_a_sentence(chapter, source, sources, tmp_path):
    found, out, refused = find(Project(), chapter), tmp_path / "out", None
    given = parameters(found, sources.get(source, source), sources["worse"])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            execute(found, given, out, tmp_path)
        except (DataError, FitError, ParameterError) as error:  # a ChapterError is for those who write chapters
            refused = error
    if refused:
        assert source not in ENOUGH.get(chapter, ()), str(refused)
        assert refused.remedy
        assert not out.exists()
        return
    notebook = json.loads((out / f"{chapter}.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    shown = "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    page = BeautifulSoup(shown, "html.parser")
    assert wrong(page, json.loads((out / "results.json").read_text())["values"]) == []


@pytest.mark.parametrize("chapter", ["forecasts", "holds", "ladder"])
def test_nothing_that_is_shipped_is_recorded_as_the_readers(chapter, sources, tmp_path, monkeypatch):
    """Six models' ranks in three folders that are named like what is shipped."""
    folders = ("myladder/ranks", "published2", "ladder")
    stores(tmp_path, place=lambda i: f"{folders[i // 2]}/store-{i}")
    for shown in ("figure", "table", "show", "download"):  # whose numbers a chapter records is seen without
        monkeypatch.setattr(Page, shown, lambda *_, **__: None)
    found, out = find(Project(), chapter), tmp_path / "out"
    (out / chapter).mkdir(parents=True)
    given = parameters(found, "myladder/ranks, published2, ./ladder", sources["worse"])
    with provenance.recording():
        in_process.run(found, given, out / f"{chapter}.ipynb", tmp_path, None, {})
    results = json.loads((out / "results.json").read_text())
    assert results["steps"] == []
    assert [path for path in results["reads"] if path.startswith("data/ladder/families-")] == []
    assert sum(path.startswith(str(tmp_path)) for path in results["reads"]) == 6
