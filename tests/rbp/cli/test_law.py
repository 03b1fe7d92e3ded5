"""`rbp law`: what it prints is what `rbp fit` finds in the stores that it wrote, and its page says the same."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from commands import here, refused
from toy_stores import write_store

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
STORES = [str(path) for path in sorted((LADDER / "families-ranks" / "neox").glob("*-humaneval-*"))]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("law") / "text.txt"
    path.write_text((ROOT / "README.md").read_text(encoding="utf-8")[:2500], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def law(project):
    """law(...): what the command prints, and its page."""

    def law(*arguments):
        out = project.root / "law.html"
        done = here("law", *map(str, arguments), "--out", str(out), root=project.root)
        assert done.returncode == 0, done.stderr
        return done.stdout, BeautifulSoup(out.read_text(encoding="utf-8"), "html.parser")

    return law


def fitted(*arguments):
    """The law that `rbp fit` finds."""
    return json.loads(here("fit", "--measurements", *map(str, arguments), "--json").stdout)


def test_the_laws_are_those_that_fit_finds_and_the_page_shows_all_of_it(law, project, text):
    printed, page = law(*MODELS, "--corpus", text, "--length", "128", "--family", "Mine")
    *lines, place = printed.splitlines()
    assert place == str(project.root / "law.html")
    assert len(lines) == 4
    for line in lines:
        k = re.match(r"−ln RBP_(\d+)", line)
        which = ["--k", k[1]] if k else ["--metric", "cross_entropy"]
        fit = fitted(project.runs / "ranks", "--dataset", "text", "--family", "Mine", *which)
        for number in (f"{fit['alpha_low']:.4f}", f"{fit['alpha_high']:.4f}", f"S^(−{fit['alpha']:.4f})", "3 models"):
            assert number in line
        # in the page's formulas k is low, and the exponent high
        assert re.sub(r"_(\d+)|\^\((\S+)\)", r"\1\2", line) in page.get_text()
    assert not page.find_all(["script", "link", "img", "iframe"])
    assert "http" not in re.sub(r'xmlns[:\w]*="[^"]+"', "", str(page.find_all("svg")))
    assert len(page.select("figure svg")) == 5  # k = 1, 10, 100, cross-entropy; RBP_k against k
    assert all(model.rsplit("/", 1)[-1] in page.get_text() for model in MODELS)
    assert len(page.select(".rbp-ranked")) == 2  # a passage by the smallest and the largest
    assert page.find_all("pre")[-1].get_text().startswith(f"rbp law {MODELS[0]} ")


def test_models_without_a_hit_are_said_to_be_left_out(project, tmp_path, caplog):
    head = "dataset,model,family,size,metric,k,value,tokens,hits\n"
    cells = [(1000 * 3**i, k, 1000, hits) for i in range(4) for k, hits in ((1, 40 * i), (10, 100 + 50 * i)) if hits]
    rows = [f"d,m{size},F,{size},neg_log_rbp,{k},{-math.log(hits / n)!r},{n},{hits}\n" for size, k, n, hits in cells]
    (tmp_path / "mine.csv").write_text(head + "".join(rows))
    fit = ("fit", "--measurements", str(tmp_path / "mine.csv"), "--dataset", "d", "--family", "F")
    for asked in (("law", str(tmp_path / "mine.csv"), "-k", "1,10"), (*fit, "--k", "1")):
        caplog.clear()
        done = here(*asked, root=project.root)
        assert caplog.text.count("no rank of m1000 on d is 1 or less: the law is without it") == 1
        assert "3 models" in done.stdout, done.stderr
    caplog.clear()
    here(*fit, "--k", "10", root=project.root)
    assert "no rank" not in caplog.text


def test_a_rising_law_is_written_with_one_sign_and_a_flat_one_gets_a_word():
    sizes = (1e4, 1e5, 1e6, 1e7)
    columns = ["dataset", "model", "family", "size", "metric", "k", "value"]
    rising, flat, falling = (
        pd.DataFrame([("a", f"m{s}", "F", s, "neg_log_rbp", 1, v) for s, v in zip(sizes, values, strict=True)],
                     columns=columns)
        for values in ([s**0.05 for s in sizes], (2, 2.1, 1.9, 2.05), [s**-0.1 for s in sizes])
    )  # fmt: skip
    said = [law_report.in_words(law_report.laws(table, 0.95), 0.95)[0] for table in (rising, flat, falling)]
    assert said[0].startswith("−ln RBP_1 = 1 · S^0.0500, F on a: α -0.0500")
    assert said[0].endswith("; it rises with S")
    assert "1 · S^0.0500, α = -0.0500" in str(fit_power_law(rising["size"], rising["value"]))
    assert ["the interval holds 0" in line for line in said] == [False, True, False]


def test_one_model_gets_its_curve_and_is_told_what_a_law_needs(law, project, text):
    printed, page = law(MODELS[0], "--corpus", text, "--family", "Mine", "-k", "1")
    stores = map(open_store, store_folders([project.runs / "ranks"]))
    assert 256 in {store.manifest["key"]["protocol"]["length"] for store in stores}  # what the model reads
    assert "a line needs 3 sizes of one family" in printed
    assert len(page.select("figure svg")) == 1


def test_models_are_ranked_with_the_opening_and_special_tokens_that_are_given(text, tmp_path):
    asked = ("law", MODELS[0], "--corpus", str(text), "--length", "64", "--tokens", "60", "-k", "1")
    done = here(*asked, "--bos", "always", "--special", "text", root=tmp_path)
    (store,) = Project(tmp_path).runs.glob("ranks/*")
    assert (open_store(store).protocol["bos"], open_store(store).protocol["special"]) == ("always", "text"), done.stderr
    assert open_store(store).manifest["key"]["bos"]


def test_what_is_measured_is_taken_as_it_is(law):
    printed, page = law("published", "--dataset", "wikipedia", "-k", "1,10")
    assert re.search("−ln RBP_1 = .*Pythia on wikipedia", printed)
    assert not page.select(".rbp-ranked")


PUBLISHED = ("published", "--dataset", "wikipedia", "-k", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([MODELS[0]], ["nothing to rank", "--corpus"]),
        (["published", "--corpus", "x.txt"], ["all of these are measured"]),
        (["published"], ["several datasets", "--dataset"]),
        (["published", "--dataset", "moon"], ["no dataset 'moon'", "wikipedia"]),
        ([*PUBLISHED, "-k", "3,7777"], ["there is no RBP_7777 on wikipedia"]),
        ([*PUBLISHED, "-k", "one"], ["one"]),
        ([*PUBLISHED, "--level", "2"], ["level"]),
        (["./nothing-here", "--corpus", "-"], ["nothing-here"]),
        ([*PUBLISHED, "--against", "time"], ["no law against 'time'", "size, tokens, compute, step"]),
        ([*PUBLISHED, "--against", "tokens"], ["training_tokens of", "not known", "--training-tokens"]),
        ([*PUBLISHED, "--surface"], ["not known"]),
        ([*PUBLISHED, "--family", "Pythie"], ["no family 'Pythie'", 'Did you mean "Pythia"?']),
        ([STORES[0], "-k", "0"], ["k = 0 is not among the ranks 1 to 4096"]),
        ([STORES[0], "-k", "4097"], ["k = 4097 is not among the ranks 1 to 4096"]),
        (["ladder:all", "--dataset", "humaneval", "-k", "5000"], ["k = 5000 is not among the ranks 1 to 4096"]),
    ],
)
def test_what_cannot_be_is_said_and_no_page_written(project, arguments, words):
    out = project.root / "not.html"
    refused(here("law", *arguments, "--out", str(out), root=project.root), *words)
    assert not out.exists()


def cells(page):
    """Model and k of each row of the last table."""
    rows = [[cell.get_text() for cell in row.select("td")[:2]] for row in page.select("table")[-1].select("tr")]
    return [tuple(row) for row in rows if row]


def test_ranks_are_counted_at_any_threshold(law):
    ranked = [Ranked(open_store(folder)) for folder in STORES]
    sizes = [one.store.size for one in ranked]
    printed, page = law(*STORES, "-k", "11,3000,4096")
    assert "−ln RBP_4096, neox on humaneval: no law" in printed  # every token is a hit
    for k in (11, 3000):
        fit = fit_power_law(sizes, [-math.log(np.mean(one.ranks <= k)) for one in ranked])
        assert f"−ln RBP_{k} = {fit.prefactor:.4g} · S^(−{fit.alpha:.4f}), neox on humaneval" in printed
    assert rbp.law(STORES, k=k).alpha == pytest.approx(fit.alpha, rel=1e-12)
    for source in ("ladder", "ladder:all", ",".join(["published", *STORES])):
        found = fitted(source, "--dataset", "humaneval", "--family", "neox", "--k", k)
        assert found["alpha"] == pytest.approx(fit.alpha, rel=1e-12)
    assert {("neox-10k-at-8m", "11"), ("neox-10k-at-8m", "3,000")} <= {*cells(page)}


def test_a_threshold_above_one_vocabulary_is_counted_for_the_others(law, tmp_path):
    for family, vocabulary in (("few", 50), ("many", 100)):
        for n in (1, 2, 4):
            greater = np.arange(40) * vocabulary // 40 // n
            write_store(tmp_path, f"{family}-{n}", 1000 * n, greater, family=family, vocabulary=vocabulary)
    printed, page = law(tmp_path, "-k", "11,61")
    assert re.findall(r"RBP_(\d+).*, (\w+) on", printed) == [("11", "few"), ("11", "many"), ("61", "many")]
    assert [k for model, k in cells(page) if model == "few-1"] == ["11"]


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
    assert checkpoints.against(own, "tokens").groupby("family").size().eq(5).all()
    for size, line in own.groupby("size"):
        fit = fit_power_law(line["training_tokens"].astype(float), line["value"])
        run = ("--family", f"neox of {size:,}", "--against", "tokens")
        assert fitted(trained, "--dataset", "wikipedia", "--k", 1, *run)["alpha"] == pytest.approx(fit.alpha, rel=1e-12)
    front = checkpoints.against(own, "compute")
    best = [row for row in own.itertuples() if not (own["value"][own["compute"] <= row.compute] < row.value).any()]
    assert set(front["size"]) == {row.compute for row in best}


def test_a_law_over_training_and_surfaces_on_a_page(law, trained):
    asked = ("--family", "neox", "--dataset", "wikipedia", "-k", "1")
    over, page = law("ladder:all", *asked)
    assert "neox at 0.5 M on wikipedia" in over  # a law in S at each number of tokens
    assert "The exponent α in S over training" in page.get_text()
    printed, page = law(trained, *asked, "--against", "tokens", "--surface")
    assert "· D^(−0.0575), neox of 9,872 on wikipedia" in printed
    assert all(line in page.get_text() for line in printed.splitlines()[-5:-1])
    assert "these runs cannot distinguish (95%)" in printed
    texts = {one.dataset: one for one in counted([1], families=["neox"])}
    points = families.points([texts["wikipedia"]], [1])
    fit = fit_surface(points[points["k"].notna()], ADDITIVE)  # by the chapter's own way to the same points
    assert f"sum, E + A·S^(−a) + B·D^(−b): a = {fit.alpha:.4f}" in printed
    assert f"b = {fit.beta:.4f}" in printed
