"""`rbp law`: what it prints is what `rbp fit` finds in the stores that it wrote, and its page says the same."""

import json
import math
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from commands import here, refused

import rbp
from companion.project import LADDER, ROOT, Project
from rbp.laws.power import fit_power_law
from rbp.measurements import checkpoints, open_source
from rbp.measurements.ranked import Ranked
from rbp.store import open_store

MODELS = [str(LADDER / "families" / "neox" / f"neox-{rung}-at-8m") for rung in ("10k", "22k", "59k")]
STORES = [str(path) for path in sorted((LADDER / "families-ranks" / "neox").glob("*-humaneval-*"))]
SIZES, BUDGETS = (10_000, 30_000, 100_000, 300_000), (500_000, 1_000_000, 2_000_000, 4_000_000)


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
    return json.loads(here("fit", *map(str, arguments), "--json").stdout)


@pytest.mark.long
def test_the_laws_are_those_that_fit_finds_and_the_page_shows_all_of_it(law, project):
    text = project.root / "text.txt"
    text.write_text((ROOT / "README.md").read_text(encoding="utf-8")[:2500], encoding="utf-8")
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
    assert not page.find_all(["script", "link", "iframe"])
    assert len(page.select("figure img")) == 5  # k = 1, 10, 100, cross-entropy; RBP_k against k


def test_models_without_a_hit_are_said_to_be_left_out(project, tmp_path, caplog):
    head = "dataset,model,family,size,metric,k,value,tokens,hits\n"
    cells = [(1000 * 3**i, k, 1000, hits) for i in range(4) for k, hits in ((1, 40 * i), (10, 100 + 50 * i)) if hits]
    rows = [f"d,m{size},F,{size},neg_log_rbp,{k},{-math.log(hits / n)!r},{n},{hits}\n" for size, k, n, hits in cells]
    (tmp_path / "mine.csv").write_text(head + "".join(rows))
    done = here("law", str(tmp_path / "mine.csv"), "-k", "1,10", root=project.root)
    assert caplog.text.count("no rank of m1000 on d is 1 or less: the law is without it") == 1
    assert "3 models" in done.stdout, done.stderr


PUBLISHED = ("published", "--dataset", "wikipedia", "-k", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([MODELS[0]], ["no text is given to rank", "--corpus"]),
        (["published", "--corpus", "x.txt"], ["no model is given that could be ranked"]),
        ([*PUBLISHED, "--against", "tokens"], ["training_tokens of", "not known", "checkpoints.csv"]),
        ([*PUBLISHED, "--family", "Pythie"], ["no family 'Pythie'", 'Did you mean "Pythia"?']),
        ([STORES[0], "-k", "4097"], ["k = 4097 is not among the ranks 1 to 4096"]),
    ],
)
def test_what_cannot_be_is_said_and_no_page_written(project, arguments, words):
    out = project.root / "not.html"
    refused(here("law", *arguments, "--out", str(out), root=project.root), *words)
    assert not out.exists()


@pytest.mark.long
def test_ranks_are_counted_at_any_threshold(law):
    ranked = [Ranked(open_store(folder)) for folder in STORES]
    sizes = [result.store.size for result in ranked]
    printed, _ = law(*STORES, "-k", "3000,4096")
    assert "−ln RBP_4096, neox on humaneval: no law" in printed  # every token is a hit
    fit = fit_power_law(sizes, [-math.log(np.mean(result.ranks <= 3000)) for result in ranked])
    assert f"−ln RBP_3000 = {fit.prefactor:.4g} · S^(−{fit.alpha:.4f}), neox on humaneval" in printed
    assert rbp.law(STORES, k=3000).alpha == pytest.approx(fit.alpha, rel=1e-12)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file of a family: four sizes after four numbers of training tokens each."""
    rng, rows = np.random.default_rng(1), []
    for size, tokens in product(SIZES, BUDGETS):
        value = 90 * size**-0.15 * tokens**-0.2 * np.exp(rng.normal(0, 0.05))
        rows.append((f"{size}-{tokens}", "F", size, tokens, value))
    table = pd.DataFrame(rows, columns=["model", "family", "size", "training_tokens", "value"])
    path = tmp_path_factory.mktemp("trained") / "mine.csv"
    table.assign(dataset="mine", metric="neg_log_rbp", k=1).to_csv(path, index=False)
    return str(path)


def test_laws_over_training_are_those_of_the_points(trained):
    """In D of a run, by hand; in C, of the points that no cheaper one beats, where there are several."""
    own = open_source(trained).checkpoints
    line = own[own["size"] == SIZES[1]]
    fit = fit_power_law(line["training_tokens"].astype(float), line["value"])
    run = ("--family", f"F of {SIZES[1]:,}", "--against", "tokens")
    assert fitted(trained, "--dataset", "mine", "--k", 1, *run)["alpha"] == pytest.approx(fit.alpha, rel=1e-12)
    front = checkpoints.against(own, "compute")
    best = [row for row in own.itertuples() if not (own["value"][own["compute"] <= row.compute] < row.value).any()]
    assert len(best) < len(own)
    assert {*front["size"]} == {row.compute for row in best}


@pytest.mark.long
def test_a_law_over_training_and_surfaces_on_a_page(law, trained):
    printed, page = law(trained, "-k", "1", "--surface")
    assert f"F at {checkpoints.amount(BUDGETS[0])} on mine" in printed  # a law in S at each number of tokens
    assert all(line in page.get_text() for line in printed.splitlines()[-5:-1])
    assert "these runs cannot distinguish (95%)" in printed
