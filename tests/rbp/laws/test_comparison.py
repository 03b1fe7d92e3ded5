"""Two rank stores compared: by brute force, token by token; what is refused; the command and its page."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from commands import here, refused
from scipy import stats
from tiny import make_tokenizer
from toy_stores import make_store

import rbp
from rbp.measurements.ranked import Ranked

LENGTHS = (40, 7, 90, 63)
TOKENS = sum(LENGTHS)
WINDOWS = {"name": "windows", "length": 64, "context": 32}
KEY = {"corpus": {"sha256": "a"}, "tokenizer": "t", "dtype": "float32", "protocol": WINDOWS}


def toy(folder, seed, *, lengths=LENGTHS, vocabulary=100, about=None, names=None, **key):
    """A store of ranks drawn at random, those of seed 1 higher than those of seed 0."""
    rng = np.random.default_rng(seed)
    greater = np.minimum((rng.geometric(0.25, sum(lengths)) - 1) * (1 + seed), 99)
    nll = rng.exponential(2 + seed, sum(lengths))
    named = {"model": f"toy/{seed}", "vocabulary": vocabulary, "nll": nll, "key": {**KEY, **key}}
    return make_store(folder, greater, lengths, names=names, **named, **(about or {}))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return [toy(folder / str(seed), seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def found(stores):
    return rbp.compare(*map(Ranked, stores), k=[1, 5, 20], level=0.9)


@pytest.fixture(scope="module")
def tokens(stores):
    """What both stores hold, as lists of rows: document, position, token, rank, nll."""
    return [
        [(r.document, r.position, r.token, r.greater + r.equal, r.nll) for r in store.ranks().itertuples()]
        for store in stores
    ]


UNSEEN = [(-1, 0, 0, 1, 0.0), (-2, 0, 0, 99, 0.0)]  # a token that is lost, and one that is gained


def left_out(statistic, a, b):
    """A statistic of the tokens, and Student's interval of the jackknife over documents, by loops.

    Of ranks with a lost and a gained token more in documents of their own; degrees of freedom by lengths.
    """
    whole, sizes = statistic(a, b), np.bincount([row[0] for row in a])
    if statistic is not entropy_difference:
        a, b = [*a, *UNSEEN], [*b, (-1, *UNSEEN[1][1:]), (-2, *UNSEEN[0][1:])]
    documents = sorted({row[0] for row in a})
    without = np.array([statistic(*([row for row in rows if row[0] != out] for rows in (a, b))) for out in documents])
    error = math.sqrt((len(documents) - 1) * np.mean((without - without.mean()) ** 2))
    half = error * stats.t.ppf(0.95, sizes.sum() ** 2 / (sizes**2).sum() - 1)
    return whole, whole - half, whole + half


def entropy_difference(a, b):
    return sum(y[4] - x[4] for x, y in zip(a, b, strict=True)) / len(a)


def rank_difference(k):
    return lambda a, b: math.log(sum(x[3] <= k for x in a) / sum(y[3] <= k for y in b))


def test_differences_and_intervals_are_those_of_brute_force(found, tokens):
    statistics = [entropy_difference, *map(rank_difference, (1, 5, 20))]
    for row, statistic in zip(found.table.itertuples(), statistics, strict=True):
        assert (row.difference, row.low, row.high) == pytest.approx(left_out(statistic, *tokens), rel=1e-9)
        assert row.b - row.a == pytest.approx(row.difference, rel=1e-9)
    for k, row in zip((1, 5, 20), found.table.iloc[1:].itertuples(), strict=True):
        pairs = [(x[3] <= k, y[3] <= k) for x, y in zip(*tokens, strict=True)]
        assert (row.lost, row.gained) == (pairs.count((True, False)), pairs.count((False, True)))
        assert row.a == pytest.approx(-math.log(sum(x for x, _ in pairs) / TOKENS), rel=1e-12)
    change = [math.log(y[3] / x[3]) for x, y in zip(*tokens, strict=True)]
    for share, value in found.quantiles.itertuples(index=False):
        assert value == pytest.approx(np.quantile(change, share), abs=1e-12)
    assert f"{np.mean(np.array(change) == 0):.1%} the same" in str(found)


def test_tokens_and_passages_that_lost_most(found, tokens):
    by_token, by_passage = {}, {}
    for x, y in zip(*tokens, strict=True):
        by_token.setdefault(x[2], []).append(y[4] - x[4])
        by_passage.setdefault((x[0], x[1] // 32), []).append((x[1], y[4] - x[4]))
    assert found.tokens["rise"].tolist() == pytest.approx(sorted((sum(v) for v in by_token.values()), reverse=True))
    for row in found.tokens.itertuples():
        assert (row.times, row.each) == (len(by_token[row.token]), pytest.approx(np.mean(by_token[row.token])))
    assert len(found.passages) == len(by_passage)
    assert found.passages["rise"].is_monotonic_decreasing
    for row in found.passages.itertuples():
        own = by_passage[row.document, row.first // 32]
        assert (row.first, row.last, row.tokens) == (own[0][0], own[-1][0], len(own))
        assert row.rise == pytest.approx(sum(rise for _, rise in own))


def test_a_model_against_itself_has_lost_nothing_whatever_is_harmless(stores, tmp_path):
    """With ranks of rounded weights, which is said; under another tie rule."""
    same = rbp.compare(stores[0].folder, stores[0].folder)
    assert (same.table["difference"] == 0).all()
    assert np.isnan(same.table["low"][0])  # of the cross-entropy: what is equal everywhere is not surely so elsewhere
    assert (same.table["low"][1:] < 0).all()
    assert same.answer.startswith("The same: perplexity +0.0%; ")
    assert "every token is predicted alike" in same.verdict[0]
    assert rbp.compare(stores[1].folder, stores[0].folder).answer.startswith("Better: perplexity -")
    other = toy(tmp_path / "other", 1, tokenizer="u", dtype="bfloat16", about={"logits": "float32"})
    assert "1 in bfloat16 (B) against 0 in float32 (A)" in str(rbp.compare(stores[0].folder, other.folder))
    strict = toy(tmp_path / "strict", 1, tie_rule="strict").folder
    assert rbp.compare(strict, strict).rule == "strict"


def test_the_same_event_in_many_documents_counts_once(tmp_path):
    """Twelve documents begin with the same three tokens, and B gains the second: one event, and no sure difference."""
    places = np.arange(360) % 30
    token, greater = np.where(places < 3, 5, np.arange(100, 460)), np.where(places == 1, 50, places % 3)
    one, other = (
        make_store(tmp_path / name, each, [30] * 12, token=token, key=KEY)
        for name, each in (("a", greater), ("b", np.where(places == 1, 0, greater)))
    )
    found = rbp.compare(one.folder, other.folder, k=[10])
    row = found.table.iloc[1]
    assert (row["lost"], row["gained"], len(found.rise)) == (0, 1, 360 - 11 * 3)
    assert row["low"] < 0 < row["high"]


OTHERS = {
    "another text": ({"corpus": {"sha256": "b"}}, "their texts differ", "the same file"),
    "a start token": ({"bos": ["<s>"]}, "another start token", "--bos"),
    "another tokenizer": ({"lengths": (40, 7, 91, 62), "tokenizer": "u"}, "tokenizers cut", "Bits per byte"),
    "another tie rule": ({"tie_rule": "strict"}, "two tie rules, paper and strict", "--tie-rule"),
    "no common token": ({"names": (7, 8, 9, 10)}, "no token was ranked by both", "the same documents"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_stores_that_do_not_compare_are_refused(tmp_path, name):
    other, words, remedy = OTHERS[name]
    one, other = toy(tmp_path / "one", 0, tie_rule="paper").folder, toy(tmp_path / "other", 1, **other).folder
    refused(here("compare", str(one), str(other)), words, remedy, str(other))


def test_the_command_its_page_and_its_tables_say_the_same(stores, tmp_path):
    """Of two models; and of three, which have a row each."""
    make_tokenizer().save_pretrained(tmp_path / "tokenizer")
    folders, out = [str(each.folder) for each in (*stores, toy(tmp_path / "third", 2))], tmp_path / "c.csv"

    def run(count, *more):
        done = here("compare", *folders[:count], "-k", "1,5", "--page", str(tmp_path / "page.html"), *more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = run(2, "--tokenizer", str(tmp_path / "tokenizer"))
    page = BeautifulSoup((tmp_path / "page.html").read_text(encoding="utf-8"), "html.parser")
    cells = [cell.get_text().replace("-", "−") for cell in page.find("table").select("td")]
    for number in re.findall(r"RBP_5 +(\S+) +(\S+) +(\S+) +(\S+) to (\S+) +(\d+) +(\d+)", text)[0]:
        assert any(number.replace("-", "−") in cell for cell in cells)
    text = run(3, "--out", str(out))
    ratios = [rbp.compare(folders[0], each).measures["difference"][0] for each in folders[1:]]
    for name, ratio in zip("12", ratios, strict=True):
        (line,) = [each for each in text.splitlines() if each.startswith(f"{name} ")]
        assert f"{ratio:+.1%}" in line
    assert pd.read_csv(out)["model"].tolist() == [1] * 7 + [2] * 7
    both = json.loads(here("compare", *folders, "--json").stdout)
    assert [each["measures"][0]["difference"] for each in both] == pytest.approx(ratios, rel=1e-6)
    assert json.loads(here("compare", *folders[:2], "--json").stdout)["answer"].startswith("Worse")
    refused(here("compare", folders[0]), "only one rank store", "two or more")


def test_the_measures_of_those_who_quantize(found, tokens):
    """Perplexity, bits and Δp by loops; flips are hits lost and gained; the same top token, where both know it."""
    one, other = ([row[4] for row in rows] for rows in tokens)
    rows = found.measures.set_index("metric")
    means = [sum(each) / TOKENS for each in (one, other)]
    assert rows.loc["perplexity", ["a", "b"]].tolist() == pytest.approx([math.exp(each) for each in means])
    assert rows.loc["perplexity", "difference"] == pytest.approx(math.exp(means[1] - means[0]) - 1)
    low = left_out(entropy_difference, *tokens)[1]
    assert rows.loc["perplexity", "low"] == pytest.approx(math.expm1(low))
    assert rows.loc["bits", ["a", "b"]].tolist() == pytest.approx([TOKENS * each / math.log(2) for each in means])
    change = [math.exp(-y) - math.exp(-x) for x, y in zip(one, other, strict=True)]
    assert rows.loc["mean_dp", "difference"] == pytest.approx(sum(change) / TOKENS)
    assert rows.loc["rms_dp", "difference"] == pytest.approx(math.sqrt(sum(each * each for each in change) / TOKENS))
    assert found.chances.set_index("share")["change"][0.5] == pytest.approx(np.median(change))
    row = found.table.iloc[2]
    assert row["flips"] == (row["lost"] + row["gained"]) / TOKENS
    assert "same_top" not in rows.index  # of which older stores know nothing
    tops = np.arange(TOKENS) % 7
    before, after = found.before.assign(top=tops), found.after.assign(top=np.where(np.arange(TOKENS) < 50, 99, tops))
    both = replace(found, before=before, after=after)
    assert both.measures.set_index("metric").loc["same_top", "difference"] == 150 / TOKENS


def test_the_plan_is_the_difference_that_is_found_in_four_of_five_cases(tmp_path):
    """By the noncentral t distribution, for 30 documents of like length."""
    one, other = (toy(tmp_path / str(seed), seed, lengths=(40,) * 30) for seed in (0, 1))
    found = rbp.compare(one.folder, other.folder, k=[1])
    df, rows = 29, found.detectable
    bar = stats.t.ppf(0.975, df)
    for difference, (low, high) in zip(rows["difference"], found.table[["low", "high"]].to_numpy(), strict=True):
        away = difference / ((high - low) / 2 / bar)
        assert stats.nct.sf(bar, df, away) == pytest.approx(0.8, abs=0.01)
    done = here("compare", str(one.folder), str(other.folder), "-k", "1", "--plan")
    assert f"cross-entropy   {rows['difference'][0]:.4f} " in done.stdout


def test_stores_are_compared_on_the_tokens_that_both_have(stores, tmp_path):
    less = (40, 7, 50)
    fewer = toy(tmp_path / "less", 1, lengths=less)
    found = rbp.compare(stores[0].folder, fewer.folder, k=[1])
    common = stores[0].ranks().merge(fewer.ranks(), on=["document", "position", "token"])
    assert found.table[["a", "b"]].iloc[0].tolist() == pytest.approx(common[["nll_x", "nll_y"]].mean().tolist())
    assert f"A has 200 tokens and B {sum(less)}: compared are the {sum(less)} that both have." in str(found)


def test_an_export_is_imported_and_compared_with_our_own(tmp_path):
    """As another program's ranks: the same places and tokens are enough; what is not known of them is said."""
    file, greater = tmp_path / "ranks.parquet", np.random.default_rng(0).integers(0, 90, 200)
    key = KEY | {"bos": ["<s>"]}
    own = make_store(tmp_path / "own", greater, LENGTHS, equal=1 + greater % 3, nll=np.log(greater + 3) + 0.1, key=key)
    assert here("ranks", "export", str(own.folder), "--out", str(file)).returncode == 0
    options = {"model": "engine", "size": 5, "vocabulary": 100, "dtype": "float32", "tie-rule": "paper"}
    options |= {"out": tmp_path / "imported", "dataset": "wikipedia"}
    given = [str(each) for name, value in options.items() for each in (f"--{name}", value)]
    done = here("ranks", "import", str(file), *given)
    assert done.returncode == 0, done.stderr
    found = rbp.compare(own.folder, done.stdout.strip())
    assert (found.table["difference"] == 0).all()
    assert "B was ranked by another program: its windows and start token are not known." in str(found)
