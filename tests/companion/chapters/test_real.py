import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student_t

from companion.chapters import real, real_damage
from companion.evidence.real import repeated


def tiny(rng, lengths, share=0.5):
    """Documents whose tokens 1 and on are ranked."""
    places = [(document, position) for document, n in enumerate(lengths) for position in range(1, n)]
    table = pd.DataFrame(places, columns=["document", "position"])
    misses = rng.random(len(table)) < share
    return table.assign(rank=np.where(misses, 5000, 1), rare=rng.random(len(table)) < 0.3, repeated=False)


def test_damaged_models_are_compared_with_the_whole_one_by_loops(monkeypatch):
    rng = np.random.default_rng(4)
    whole = tiny(rng, [50, 7, 90, 33])
    ranks = {way: np.where(rng.random(len(whole)) < 0.6, 3000, 2) for way in ("layers", "weights")}
    tables = [whole.assign(rank=rank, way=way, text="humaneval") for way, rank in ranks.items()]
    monkeypatch.setattr(real_damage, "tokens_of", lambda *_: whole)
    monkeypatch.setattr(real_damage, "damaged", lambda: pd.concat(tables).drop(columns="repeated"))
    found = real_damage.damaged_misses().set_index("way")
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
            n = whole.groupby("document").size()
            plain = 2 * student_t.sf(abs(away[0]) / error, n.sum() ** 2 / (n**2).sum() - 1)
            assert plain - 1e-12 <= found[f"{share}_p"][way] <= 4 * plain + 1e-12  # Holm over four


def test_windows_are_those_of_a_loop_and_new_ones_hold_no_repeated_token():
    rng = np.random.default_rng(2)
    tokens = tiny(rng, [60, 30, 41], share=0.1).assign(repeated=lambda t: rng.random(len(t)) < 0.05)
    hit, new = (tokens["rank"] == 1).to_numpy(), ~tokens["repeated"].to_numpy()
    for among in (np.ones(len(tokens), dtype=bool), new):
        logs = real.log_success(hit, tokens, among)[0]
        for n, value in zip(real.LENGTHS[:4], logs, strict=False):
            there = success = 0
            for _, own in tokens.groupby("document"):
                for i in range(len(own) - n + 1):
                    place = own.index[i : i + n]
                    there += among[place].all()
                    success += (among & hit)[place].all()
            with np.errstate(divide="ignore"):
                assert value == pytest.approx(np.log(success / there))


def test_repeated_tokens_are_those_of_a_search():
    ids = np.random.default_rng(4).integers(0, 3, 200)
    text = ids.tolist()
    for i, found in enumerate(repeated(ids)):
        assert found == any(i >= 4 and text[j : j + 4] == text[i - 4 : i] for j in range(i - 4))
