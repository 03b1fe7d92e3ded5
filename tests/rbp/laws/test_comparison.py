"""Two rank stores compared: by brute force, token by token; what is refused; the command and its page."""

import math
import re

import numpy as np
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


def toy(folder, seed, *, lengths=LENGTHS, vocabulary=100, about=None, **key):
    """A store of ranks drawn at random, those of seed 1 higher than those of seed 0."""
    rng = np.random.default_rng(seed)
    greater = np.minimum((rng.geometric(0.25, sum(lengths)) - 1) * (1 + seed), 99)
    nll = rng.exponential(2 + seed, sum(lengths))
    named = {"model": f"toy/{seed}", "vocabulary": vocabulary, "nll": nll, "key": {**KEY, **key}}
    return make_store(folder, greater, lengths, **named, **(about or {}))


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


def left_out(statistic, a, b):
    """A statistic of the tokens, and Student's interval of the jackknife over documents, by loops."""
    documents = sorted({row[0] for row in a})
    without = np.array([statistic(*([row for row in rows if row[0] != out] for rows in (a, b))) for out in documents])
    error = math.sqrt((len(documents) - 1) * np.mean((without - without.mean()) ** 2))
    half = error * stats.t.ppf(0.95, len(documents) - 1)
    whole = statistic(a, b)
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
    change = sorted(math.log(y[3] / x[3]) for x, y in zip(*tokens, strict=True))
    for share, value in found.quantiles.itertuples(index=False):  # linear between neighbours, as by hand
        place = share * (TOKENS - 1)
        low, part = int(place), place - int(place)
        assert value == pytest.approx(change[low] * (1 - part) + change[low + 1] * part, abs=1e-12)
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
        assert found.before["position"].iloc[row.start : row.stop].tolist() == [position for position, _ in own]


def test_a_model_against_itself_has_lost_nothing_whatever_is_harmless(stores, tmp_path):
    """By a tokenizer that was saved again; with ranks of rounded weights, which is said; under another tie rule."""
    same = rbp.compare(stores[0].folder, stores[0].folder)
    assert (same.table[["difference", "low", "high"]].to_numpy() == 0).all()
    assert (same.table[["lost", "gained"]].dropna() == 0).all(axis=None)
    assert "100.0% the same" in str(same)
    other = toy(tmp_path / "other", 1, tokenizer="u", dtype="bfloat16", about={"logits": "float32"})
    assert "1 in bfloat16 (B) against 0 in float32 (A)" in str(rbp.compare(stores[0].folder, other.folder))
    strict = toy(tmp_path / "strict", 1, tie_rule="strict").folder
    assert rbp.compare(strict, strict).rule == "strict"


OTHERS = {
    "another text": ({"corpus": {"sha256": "b"}}, "their texts differ", "the same file"),
    "a start token": ({"bos": ["<s>"]}, "another start token", "--bos"),
    "another tokenizer": ({"lengths": (40, 7, 91, 62), "tokenizer": "u"}, "tokenizers cut", "Bits per byte"),
    "another tie rule": ({"tie_rule": "strict"}, "two tie rules, paper and strict", "--tie-rule"),
    "fewer tokens": ({"lengths": LENGTHS[:3]}, "other tokens of the text were ranked, 200 and 137", "--tokens"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_stores_that_do_not_compare_are_refused(tmp_path, name):
    other, words, remedy = OTHERS[name]
    one, other = toy(tmp_path / "one", 0, tie_rule="paper").folder, toy(tmp_path / "other", 1, **other).folder
    refused(here("compare", str(one), str(other)), words, remedy, str(other))


def test_the_command_and_its_page_say_the_same(stores, tmp_path):
    make_tokenizer().save_pretrained(tmp_path / "tokenizer")
    page, folders = tmp_path / "page.html", [str(store.folder) for store in stores]
    done = here("compare", *folders, "-k", "1,5", "--tokenizer", str(tmp_path / "tokenizer"), "--page", str(page))
    assert done.returncode == 0, done.stderr
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    assert not soup.find_all(["script", "link", "img", "iframe"])
    cells = [cell.get_text().replace("-", "−") for cell in soup.find("table").select("td")]
    for number in re.findall(r"RBP_5 +(\S+) +(\S+) +(\S+) +(\S+) to (\S+) +(\d+) +(\d+)", done.stdout)[0]:
        assert any(number.replace("-", "−") in cell for cell in cells)
    assert len(soup.select("figure svg")) == 1
    assert len(soup.select(".rbp-ranked")) == 2 * 5
    assert soup.find_all("pre")[-1].get_text().startswith(f"rbp compare {folders[0]} ")
