import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student_t

from companion.chapters import damage, real
from companion.evidence.real import find_repeats


def tiny(rng, lengths, share=0.5):
    """Documents whose tokens 1 and on are ranked."""
    places = [(document, position) for document, n in enumerate(lengths) for position in range(1, n)]
    table = pd.DataFrame(places, columns=["document", "position"])
    misses = rng.random(len(table)) < share
    return table.assign(rank=np.where(misses, 5000, 1), rare=rng.random(len(table)) < 0.3, repeated=False)


def left_out(rows, share):
    """A share of all documents, its error by leaving each out, and the degrees of freedom of their lengths."""
    documents, lengths = np.unique(rows["document"], return_counts=True)
    whole, *others = (share(rows[rows["document"] != gone]) for gone in (None, *documents))
    n = len(documents)
    error = np.sqrt((n - 1) / n * sum((each - np.mean(others)) ** 2 for each in others))
    return whole, error, len(rows) ** 2 / sum(lengths**2) - 1


def test_shares_of_misses_and_their_intervals_are_those_of_loops():
    rng = np.random.default_rng(8)
    without = tiny(rng, [60, 45, 90, 38])
    start = without.assign(rank=np.where(rng.random(len(without)) < 0.3, 4000, 1))
    both = without.assign(after=start["rank"])
    summary = real.shares_of_misses(real.sum_misses(without, start, 1000))
    missed = both["rank"] > 1000
    assert (summary["tokens"], summary["missed"], summary["documents"]) == (len(both), missed.sum(), 4)
    kinds = {"early": both["position"] <= 3, "rare": both["rare"]}
    for name, kind in kinds.items():
        share, error, df = left_out(both, lambda rows, kind=kind: kind[rows.index][rows["rank"] > 1000].mean())
        half = student_t.ppf(0.975, df) * error
        ends = [summary[f"{name}{end}"] for end in ("", "_low", "_high")]
        assert ends == pytest.approx([share, share - half, share + half])
    left, error, df = left_out(both, lambda rows: np.log((rows["after"] > 1000).sum() / (rows["rank"] > 1000).sum()))
    half = student_t.ppf(0.975, df) * error
    ends = [summary[f"removed{end}"] for end in ("", "_low", "_high")]
    assert ends == pytest.approx(1 - np.exp([left, left + half, left - half]))


def test_tests_of_a_start_token_are_one_sided_and_corrected_and_the_mean_is_of_texts(monkeypatch):
    rng = np.random.default_rng(9)
    ranked = {
        (text, bos): tiny(np.random.default_rng(i), [60, 45, 90, 38]).assign(
            rank=lambda rows, share=share: np.where(rng.random(len(rows)) < share, 4000, 1)
        )
        for i, text in enumerate(real.TEXTS)
        for bos, share in (("never", 0.5), ("always", 0.5 - 0.12 * i))
    }
    monkeypatch.setattr(real, "tokens_of", lambda _, text, bos: ranked[text, bos])
    table = real.miss_table((1000,))
    for name, side in (("p_more", 1), ("p_fewer", -1)):
        bar = np.log(2 / 3) if name == "p_more" else np.log(0.9)
        p = student_t.cdf(side * (table["log_left"] - bar) / table["error"], table["df"])
        order = np.argsort(p)
        holm = np.maximum.accumulate(p[order] * [4, 3, 2, 1]).clip(max=1)
        assert table[name].to_numpy()[order] == pytest.approx(holm)
    mean = real.mean_removed(table)
    removed, left = table["removed"].mean(), np.exp(table["log_left"])
    error, df = np.sqrt(((left * table["error"]) ** 2).sum()) / 4, table["df"].min()
    assert mean["removed"] == pytest.approx(removed)
    assert mean["removed_high"] - removed == pytest.approx(student_t.ppf(0.975, df) * error)
    assert mean["p_fewer"] == pytest.approx(student_t.cdf((removed - 0.1) / error, df))


def test_context_helps_by_the_slope_of_a_line_through_its_bins(monkeypatch):
    rng = np.random.default_rng(10)
    tokens = tiny(rng, [2048, 2048, 1500]).assign(
        rank=lambda rows: np.where(rng.random(len(rows)) < 0.9 * rows["position"] ** -0.1, 4000, 1)
    )
    monkeypatch.setattr(real, "tokens_of", lambda *_: tokens)
    values, slopes = real.fit_by_position((1, 10))
    bins = [tokens["position"].between(2**j, 2 ** (j + 1) - 1) for j in range(5, 11)]
    wanted = [-np.log((tokens["rank"][inside] <= 1).mean()) for inside in bins]
    first = values[(values["dataset"] == "novels") & (values["k"] == 1)]
    assert first["value"].to_numpy() == pytest.approx(wanted)
    row = slopes.set_index(["dataset", "k"]).loc[("auslegal", 1)]
    assert row["slope"] == pytest.approx(np.polyfit(range(6), np.log(wanted), 1)[0])
    rates = lambda rows: [(rows["rank"][inside[rows.index]] <= 1).mean() for inside in bins[-2:]]  # noqa: E731
    last, error, df = left_out(tokens, lambda rows: np.diff(np.log(-np.log(rates(rows)))).item())
    assert row["last"] == pytest.approx(np.log(wanted[5] / wanted[4])) == pytest.approx(last)
    assert row["p"] == pytest.approx(min(1, 2 * 2 * student_t.sf(abs(last) / error, df))), "Holm over two equal tests"


def test_damaged_models_are_compared_with_the_whole_one_by_loops(monkeypatch):
    rng = np.random.default_rng(4)
    whole = tiny(rng, [50, 7, 90, 33])
    ranks = {way: np.where(rng.random(len(whole)) < 0.6, 3000, 2) for way in ("layers", "weights")}
    tables = [whole.assign(rank=rank, way=way, text="humaneval") for way, rank in ranks.items()]
    monkeypatch.setattr(damage, "tokens_of", lambda *_: whole)
    monkeypatch.setattr(damage, "read_damaged", lambda: pd.concat(tables).drop(columns="repeated"))
    found = damage.damaged_misses().set_index("way")
    for way, rank in ranks.items():
        for share, kind in (("early", whole["position"] <= 3), ("rare", whole["rare"])):
            for name, miss in ((share, rank > 1000), (f"{share}_whole", whole["rank"] > 1000)):
                assert found[name][way] == pytest.approx(kind[miss].mean())
            away = []
            for gone in (None, *whole["document"].unique()):
                rest = whole["document"] != gone
                shares = [sum(m & kind & rest) / sum(m & rest) for m in (rank > 1000, whole["rank"] > 1000)]
                away.append(shares[0] - shares[1])
            error = np.sqrt(3 / 4 * sum((one - np.mean(away[1:])) ** 2 for one in away[1:]))
            plain = 2 * student_t.sf(abs(away[0]) / error, 180**2 / (50**2 + 7**2 + 90**2 + 33**2) - 1)
            assert plain - 1e-12 <= found[f"{share}_p"][way] <= 4 * plain + 1e-12  # Holm over four


def test_windows_are_those_of_a_loop_and_new_ones_are_divided_by_the_hit_rate_of_their_own_tokens():
    """New windows hold no repeated token."""
    rng = np.random.default_rng(2)
    tokens = tiny(rng, [60, 30, 41], share=0.1).assign(repeated=lambda t: rng.random(len(t)) < 0.05)
    hit, new = (tokens["rank"] == 1).to_numpy(), ~tokens["repeated"].to_numpy()

    def windows(n, gone=None):
        """The places of every window of n tokens, without those of a document."""
        own = [rows.index for document, rows in tokens.groupby("document") if document != gone]
        return [index[i : i + n] for index in own for i in range(len(index) - n + 1)]

    for among in (np.ones(len(tokens), dtype=bool), new):
        for n, value in zip(real.LENGTHS[:4], real.log_success(hit, tokens, among)[0], strict=False):
            good = [place for place in windows(n) if among[place].all()]
            with np.errstate(divide="ignore"):
                assert value == pytest.approx(np.log(np.mean([hit[place].all() for place in good])))
    for row, gone in enumerate((None, 0, 1, 2)):
        for n, value in zip(real.LENGTHS[:4], real.log_rate_within(hit, tokens, new)[row], strict=False):
            rates = [hit[place].mean() for place in windows(n, gone) if new[place].all()]
            assert np.exp(value) == pytest.approx(np.mean(rates))


def test_repeated_tokens_are_those_of_a_search():
    ids = np.random.default_rng(4).integers(0, 3, 200)
    text = ids.tolist()
    for i, found in enumerate(find_repeats(ids)):
        assert found == any(i >= 4 and text[j : j + 4] == text[i - 4 : i] for j in range(i - 4))
