"""`rbp law`: what it prints is what `rbp fit` finds in the stores that it wrote, and its page says the same."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from commands import here, refused
from rank_stores import write_store

import rbp
from companion.chapters import families
from companion.project import LADDER, ROOT, Project
from ladder.shipped import counted
from rbp.extract.store import open_store, store_folders
from rbp.laws.misfit import ADDITIVE
from rbp.laws.power import fit_power_law
from rbp.laws.surface import fit_surface
from rbp.measurements import checkpoints, open_source
from rbp.measurements.ranked import Ranked
from rbp.report import law as law_report

MODELS = [str(LADDER / "families" / "neox" / f"neox-{rung}-at-8m") for rung in ("10k", "22k", "59k")]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("law") / "text.txt"
    path.write_text((ROOT / "README.md").read_text(encoding="utf-8")[:2500], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def told(project, text):
    done = here("law", *MODELS, "--corpus", str(text), "--length", "128", "--family", "Mine", root=project.root)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_laws_are_those_that_fit_finds_in_the_stores(told, project):
    laws, page = told[:-1], told[-1]
    assert page == str(project.runs / "law.html")
    assert len(laws) == 4
    for line in laws:
        k = re.match(r"−ln RBP_(\d+)", line)
        which = ["--k", k[1]] if k else ["--metric", "cross_entropy"]
        stores = str(project.runs / "ranks")
        done = here("fit", "--measurements", stores, "--dataset", "text", "--family", "Mine", *which, "--json")
        fit = json.loads(done.stdout)
        for number in (f"{fit['alpha_low']:.4f}", f"{fit['alpha_high']:.4f}", f"S^(−{fit['alpha']:.4f})", "3 models"):
            assert number in line


def test_the_page_loads_nothing_and_shows_all_of_it(told, project):
    page = (project.runs / "law.html").read_text(encoding="utf-8")
    soup = BeautifulSoup(page, "html.parser")
    assert not soup.find_all(["script", "link", "img", "iframe"])
    assert "http" not in re.sub(r'xmlns[:\w]*="[^"]+"', "", str(soup.find_all("svg")))
    for line in told[:-1]:  # in the formulas k is low, and the exponent high
        assert re.sub(r"_(\d+)|\^\((\S+)\)", r"\1\2", line) in soup.get_text()
    assert [sub.get_text() for sub in soup.select("p sub")] == ["1", "10", "100"]
    assert len(soup.select("p sup")) == 4
    assert "by documents" not in soup.get_text()  # there is one
    assert len(soup.select("figure svg")) == 5  # k = 1, 10, 100, cross-entropy; RBP_k against k
    for model in MODELS:
        assert model.rsplit("/", 1)[-1] in soup.find("table").find_next("table").get_text()
    passages = [element.get_text() for element in soup.select(".rbp-ranked")]
    assert len(passages) == 2  # the smallest and the largest
    assert "reproducible" in re.sub(r"\d+", "", passages[0]).replace("\xa0", " ")
    assert soup.find_all("pre")[-1].get_text().startswith(f"rbp law {MODELS[0]} ")


def test_models_without_a_hit_are_said_to_be_left_out(project, tmp_path, caplog):
    head = "dataset,model,family,size,metric,k,value,tokens,hits\n"
    cells = [(1000 * 3**i, k, 1000, hits) for i in range(4) for k, hits in ((1, 40 * i), (10, 100 + 50 * i)) if hits]
    rows = [f"d,m{size},F,{size},neg_log_rbp,{k},{-math.log(hits / n)!r},{n},{hits}\n" for size, k, n, hits in cells]
    (tmp_path / "mine.csv").write_text(head + "".join(rows))
    fit = ("fit", "--measurements", str(tmp_path / "mine.csv"), "--dataset", "d", "--family", "F")
    for asked in (("law", str(tmp_path / "mine.csv"), "-k", "1,10"), (*fit, "--k", "1")):
        caplog.clear()
        done = here(*asked, root=project.root)
        assert done.returncode == 0, done.stderr
        assert caplog.text.count("no rank of m1000 on d is 1 or less: the law is without it") == 1
        assert "3 models" in done.stdout
    caplog.clear()
    here(*fit, "--k", "10", root=project.root)
    assert "no rank" not in caplog.text


def test_an_exponent_of_the_other_sign_is_written_with_one_sign():
    rows = [("a", f"m{i}", "F", size, "neg_log_rbp", 1, size**0.05) for i, size in enumerate((1e4, 1e5, 1e6, 1e7))]
    table = pd.DataFrame(rows, columns=["dataset", "model", "family", "size", "metric", "k", "value"])
    (line,) = law_report.in_words(law_report.laws(table, 0.95), 0.95)
    assert line.startswith("−ln RBP_1 = 1 · S^0.0500, F on a: α -0.0500")
    assert line.endswith("; it rises with S")
    assert "1 · S^0.0500, α = -0.0500" in str(fit_power_law(table["size"], table["value"]))


def test_one_model_gets_its_curve_and_is_told_what_a_law_needs(project, text):
    out = project.root / "one.html"
    done = here(
        *("law", MODELS[0], "--corpus", str(text), "--family", "Mine", "-k", "1", "--out", str(out)),
        root=project.root,
    )
    assert done.returncode == 0, done.stderr
    stores = map(open_store, store_folders([project.runs / "ranks"]))
    assert 256 in {store.manifest["key"]["protocol"]["length"] for store in stores}  # what the model reads
    assert "a line needs 3 sizes of one family" in done.stdout
    assert len(BeautifulSoup(out.read_text(), "html.parser").select("figure svg")) == 1


def test_models_are_ranked_with_the_opening_and_special_tokens_that_are_given(text, tmp_path):
    own = Project(tmp_path)
    asked = ("--corpus", str(text), "--length", "64", "--tokens", "60", "-k", "1")
    done = here("law", MODELS[0], *asked, "--bos", "always", "--special", "text", root=own.root)
    (store,) = own.runs.glob("ranks/*")
    assert open_store(store).protocol["bos"] == "always", done.stderr
    assert open_store(store).protocol["special"] == "text"
    assert open_store(store).manifest["key"]["bos"]
    done = here("law", MODELS[0], *asked, "--bos", "often", root=own.root)
    assert (done.returncode, "bos cannot be 'often'" in done.stderr) == (2, True)


def test_what_is_measured_is_taken_as_it_is(project):
    out = project.root / "published.html"
    done = here("law", "published", "--dataset", "wikipedia", "-k", "1,10", "--out", str(out), root=project.root)
    assert "−ln RBP_1 = " in done.stdout
    assert "Pythia on wikipedia" in done.stdout
    assert not BeautifulSoup(out.read_text(), "html.parser").select(".rbp-ranked")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([MODELS[0]], ["nothing to rank", "--corpus"]),
        (["published", "--corpus", "x.txt"], ["all of these are measured"]),
        (["published"], ["several datasets", "--dataset"]),
        (["published", "--dataset", "moon"], ["no dataset 'moon'", "wikipedia"]),
        (["published", "--dataset", "wikipedia", "-k", "3,7777"], ["there is no RBP_7777 on wikipedia"]),
        (["published", "--dataset", "wikipedia", "-k", "one"], ["one"]),
        (["published", "--dataset", "wikipedia", "--level", "2"], ["level"]),
        (["./nothing-here", "--corpus", "-"], ["nothing-here"]),
    ],
)
def test_what_cannot_be_is_said(project, arguments, words):
    refused(here("law", *arguments, root=project.root), *words)


STORES = [str(path) for path in sorted((LADDER / "families-ranks" / "neox").glob("*-humaneval-*"))]


def test_ranks_are_counted_at_any_threshold(project):
    ranked = [Ranked(open_store(folder)) for folder in map(Path, STORES)]
    sizes = [one.store.size for one in ranked]
    out = project.root / "any.html"
    law = here("law", *STORES, "-k", "11,3000,4096", "--out", str(out), root=project.root).stdout
    assert "−ln RBP_4096, neox on humaneval: no law" in law  # every token is a hit
    for k in (11, 3000):
        fit = fit_power_law(sizes, [-math.log(np.mean(one.ranks <= k)) for one in ranked])
        assert f"−ln RBP_{k} = {fit.prefactor:.4g} · S^(−{fit.alpha:.4f}), neox on humaneval" in law
    assert rbp.law(STORES, k=k).alpha == pytest.approx(fit.alpha, rel=1e-12)
    for source in ("ladder", "ladder:all", ",".join(["published", *STORES])):
        asked = ("--dataset", "humaneval", "--family", "neox", "--k", str(k), "--json")
        done = here("fit", "--measurements", source, *asked)
        assert json.loads(done.stdout)["alpha"] == pytest.approx(fit.alpha, rel=1e-12)
    shown = {tuple(cell.get_text() for cell in row.select("td")[:2]) for row in page_tables(out)[-1].select("tr")}
    assert {("neox-10k-at-8m", "11"), ("neox-10k-at-8m", "3,000")} <= shown


def page_tables(page):
    return BeautifulSoup(page.read_text(), "html.parser").select("table")


@pytest.mark.parametrize("k", ["0", "4097", "5000"])
@pytest.mark.parametrize("source", [STORES[:1], ["ladder:all", "--dataset", "humaneval"]])
def test_what_is_no_rank_of_any_model_is_said(project, source, k):
    refused(here("law", *source, "-k", k, root=project.root), f"k = {k} is not among the ranks 1 to 4096")


def test_a_threshold_above_one_vocabulary_is_counted_for_the_others(project, tmp_path):
    for family, vocabulary in (("few", 50), ("many", 100)):
        for n in (1, 2, 4):
            greater = np.arange(40) * vocabulary // 40 // n
            write_store(tmp_path, f"{family}-{n}", 1000 * n, greater, family=family, vocabulary=vocabulary)
    out = project.root / "two.html"
    done = here("law", str(tmp_path), "-k", "11,61", "--out", str(out), root=project.root)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"RBP_(\d+).*, (\w+) on", done.stdout) == [("11", "few"), ("11", "many"), ("61", "many")]
    cells = [[cell.get_text() for cell in row.select("td")[:2]] for row in page_tables(out)[-1].select("tr")]
    assert [k for model, k in filter(None, cells) if model == "few-1"] == ["11"]


@pytest.fixture(scope="module")
def own():
    """What the ladder's sums say of its transformers on one text, after each number of training tokens."""
    return open_source("ladder:all").checkpoints.query("family == 'neox' and dataset == 'wikipedia' and k == 1")


@pytest.fixture(scope="module")
def trained(own, tmp_path_factory):
    """The same as a file."""
    path = tmp_path_factory.mktemp("trained") / "mine.csv"
    own.drop(columns="source").to_csv(path, index=False)
    return str(path)


def test_laws_over_training_are_those_of_the_points(own, trained):
    """A law in D for each run, by hand; in C, of the points that no cheaper one beats."""
    rows = checkpoints.against(own, "tokens")
    assert rows.groupby("family").size().eq(5).all()
    for size, line in own.groupby("size"):
        fit = fit_power_law(line["training_tokens"].astype(float), line["value"])
        done = here(
            *("fit", "--measurements", trained, "--dataset", "wikipedia", "--k", "1", "--json"),
            *("--family", f"neox of {size:,}", "--against", "tokens"),
        )
        assert json.loads(done.stdout)["alpha"] == pytest.approx(fit.alpha, rel=1e-12)
    front = checkpoints.against(own, "compute")
    best = [row for row in own.itertuples() if not (own["value"][own["compute"] <= row.compute] < row.value).any()]
    assert set(front["size"]) == {row.compute for row in best}


def test_a_law_over_training_and_surfaces_on_a_page(project, trained):
    out = project.root / "over.html"
    asked = ("--family", "neox", "--dataset", "wikipedia", "-k", "1", "--out", str(out))
    over = here("law", "ladder:all", *asked, root=project.root)
    assert "neox at 0.5 M on wikipedia" in over.stdout  # a law in S at each number of tokens
    page = BeautifulSoup(out.read_text(), "html.parser").get_text()
    assert "The exponent α in S over training" in page
    done = here("law", trained, *asked, "--against", "tokens", "--surface", root=project.root)
    assert "· D^(−0.0575), neox of 9,872 on wikipedia" in done.stdout
    page = BeautifulSoup(out.read_text(), "html.parser").get_text()
    for line in done.stdout.splitlines()[-5:-1]:
        assert line in page
    assert "these runs cannot distinguish (95%)" in done.stdout
    grid = read_grid()
    for words in (f"sum, E + A·S^(−a) + B·D^(−b): a = {grid.alpha:.4f}", f"b = {grid.beta:.4f}"):
        assert words in done.stdout


def read_grid():
    """The sum, fitted to the same points by the chapter's own way to them."""
    texts = {one.dataset: one for one in counted([1], families=["neox"])}
    points = families.points([texts["wikipedia"]], [1])
    return fit_surface(points[points["k"].notna()], ADDITIVE)


def test_a_flat_law_gets_a_word():
    rows = [("a", f"m{i}", "F", 10**i, "neg_log_rbp", 1, value) for i, value in enumerate((2, 2.1, 1.9, 2.05), 4)]
    table = pd.DataFrame(rows, columns=["dataset", "model", "family", "size", "metric", "k", "value"])
    (line,) = law_report.in_words(law_report.laws(table, 0.95), 0.95)
    assert "the interval holds 0" in line
    steep = table.assign(value=table["size"] ** -0.1)
    assert "holds 0" not in law_report.in_words(law_report.laws(steep, 0.95), 0.95)[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "time"], ["no law against 'time'", "size, tokens, compute, step"]),
        (["--against", "tokens"], ["training_tokens of", "not known", "--training-tokens"]),
        (["--surface"], ["not known"]),
        (["--family", "Pythie"], ["no family 'Pythie'", 'Did you mean "Pythia"?']),
    ],
)
def test_an_axis_that_cannot_be_is_said(project, arguments, words):
    out = project.root / "not.html"
    asked = ("law", "published", "--dataset", "wikipedia", "-k", "1", "--out", str(out), *arguments)
    refused(here(*asked, root=project.root), *words)
    assert not out.exists()
