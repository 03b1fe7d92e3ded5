"""A family and its ranks: one made up on the spot, and those that are shipped."""

import numpy as np
import pytest
import torch
from draws import rest_slow
from made_ladder import quiet

from companion.project import LADDER
from ladder import aggregates, ranking
from ladder.recipe import read_recipe
from ladder.shipping import RESOLUTION
from rbp.extract.extraction import verify_store
from rbp.metric import rank, rbp
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import open_store

MODELS = sorted(path.parent for path in (LADDER / "families").glob("*/*/model.safetensors"))
FIRST = [(path, "humaneval") for path in MODELS if path.name in ("neox-10k-at-8m", "lstm-10k-at-8m")]
EVERY = [(path, domain) for path in MODELS for domain in ("humaneval", "wikipedia", "hotpotqa", "auslegal")]


@pytest.mark.parametrize(("model", "domain"), rest_slow(FIRST, [pair for pair in EVERY if pair not in FIRST]), ids=str)
def test_shipped_ranks_are_those_of_the_shipped_weights(model, domain):
    (folder,) = (LADDER / "families-ranks" / model.parent.name).glob(f"{model.name}-{domain}-*")
    store = open_store(folder)
    verified, rows = verify_store(store, str(model), [f"ladder/{domain}"])
    assert verified.tokens >= 0.02 * store.tokens
    assert verified.rows < rows
    assert verified.differ < 0.01 * verified.tokens  # by rounding


def test_rbp_from_a_store_is_that_of_stored_logits_for_every_k():
    """The logits of some documents, by the whole model; ranks by counting; RBP_k by its definition."""
    (folder,) = (LADDER / "families-ranks" / "neox").glob("neox-10k-at-8m-humaneval-*")
    store, context, sample = open_store(folder), read_recipe().text.context, 12
    files = find_model(str(LADDER / "families" / "neox" / "neox-10k-at-8m"))
    tokenizer, model = load_tokenizer(files), load_model(files, "float32", torch.device("cpu")).model
    counted, nll = [], []
    for document in ranking.evaluation_documents("humaneval")[:sample]:
        ids = torch.tensor(tokenizer(document.text)["input_ids"])[:context]
        with torch.inference_mode():
            logits = model(input_ids=ids[None]).logits[0, :-1].double()
        of_truth = logits.gather(1, ids[1:, None])
        counted += (1 + (logits > of_truth).sum(1)).tolist()
        nll += (logits.logsumexp(1) - of_truth[:, 0]).tolist()
    stored = store.ranks().query("document < @sample and position < @context")
    ours, brute = np.asarray(rank(stored["greater"], stored["equal"])), np.array(counted)
    assert len(ours) == len(brute)
    assert np.count_nonzero(ours != brute) <= 1  # another product may round two logits to the other order
    for k in range(1, store.vocabulary + 1):
        assert abs(rbp(ours, k) * len(ours) - np.count_nonzero(brute <= k)) <= 1.001, k
    assert rbp(ours, store.vocabulary) == 1.0
    np.testing.assert_allclose(stored["nll"], nll, atol=1e-4 + 0.51 / RESOLUTION)  # −ln p is rounded


def test_ranking_again_changes_nothing_and_stores_of_other_weights_go(workshop):
    making, _ = workshop
    run, threads = making.choose(["neox"], ["narrow"], [0])[0], torch.get_num_threads()
    name = run.model_name(2_560)
    (kept,) = (making.place / "ranks").glob(f"{name}-tales-*")
    before = (kept / "manifest.json").read_bytes()
    stale = kept.with_name(f"{name}-tales-0123456789abcdef")
    stale.mkdir()
    aggregates.rank(quiet, making, run, 2_560)
    torch.set_num_threads(threads)
    assert (kept / "manifest.json").read_bytes() == before
    assert not stale.exists()
