"""A model made worse: against token-by-token passes by hand, and what must be so at the ends of every path."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import texts
from transformers import AutoModelForCausalLM

from companion.damage import measure
from companion.damage.compare import TEMPERATURES, THRESHOLDS
from companion.damage.measure import WHOLE_STEP as WHOLE
from companion.damage.measure import (
    Step,
    degraded,
    list_readings,
    list_steps,
    measured,
    round_weights,
    scored_rows,
    select_matrices,
)
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.texts.corpora import Corpus

CORPUS = Corpus("c", texts(12, seed=3, longest=400), {"made": "up"})
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def make(saved):
    """make(kind): a ranker with that model, and rows of whole documents."""

    def make(kind):
        files = find_model(str(saved(kind)))
        rows = scored_rows(CORPUS, load_tokenizer(files), 128, 150)
        return measure.checked_ranker(load_model(files, "float32", CPU), rows), rows

    return make


def by_hand(logits, documents, targets):
    """The columns of `measured` that do not need temperatures, from logits in double precision."""
    rows = []
    for z, document, target in zip(logits, documents, targets, strict=True):
        p = np.exp(z - z.max())
        p /= p.sum()
        rank = (z >= z[target]).sum()
        rows.append([document, 1, *(rank <= k for k in THRESHOLDS), -np.log(p[target])])
    columns = ["document", "tokens", *(f"hits_{k}" for k in THRESHOLDS), "nll_1.0"]
    return pd.DataFrame(rows, columns=columns).astype(float).groupby("document").sum()


def agree(found, expected):
    own = found.set_index("document")
    pd.testing.assert_frame_equal(
        own[expected.columns].astype(float), expected, rtol=2e-5, check_names=False, check_index_type=False
    )


@pytest.mark.long
def test_exactly_so_many_tokens_stand_before_every_scored_one(make, saved):
    """Each token after the document's own tokens before it, not the rows'."""
    ranker, rows = make("gemma2")
    got = measured(ranker, list_readings(rows, Step("context", 64)))
    model = AutoModelForCausalLM.from_pretrained(saved("gemma2"), dtype=torch.float32).eval()
    tokenizer = load_tokenizer(find_model(str(saved("gemma2"))))
    logits, documents, targets = [], [], []
    for document in sorted({row.document for row in rows}):
        ids = tokenizer(CORPUS.documents[document])["input_ids"]
        before = torch.tensor([ids[t - 64 : t] for t in range(64, len(ids))])
        with torch.inference_mode():
            logits.extend(model(before).logits[:, -1].double().numpy())
        documents += [document] * len(before)
        targets += ids[64:]
    agree(got, by_hand(logits, documents, targets))


def whole(ranker, rows):
    return measured(ranker, list_readings(rows, WHOLE))


def test_leaving_at_a_layer_is_the_final_norm_of_what_it_gives(make):
    ranker, rows = make("gemma2")
    before = whole(ranker, rows)
    model = ranker.language.model
    assert [step.step for step in list_steps("depth", ranker.language)] == [1, 0]
    with degraded(ranker.language, Step("depth", 1)):
        got = measured(ranker, list_readings(rows, Step("depth", 1)))
    seen, logits, documents, targets = [], [], [], []
    model.base_model.layers[0].register_forward_hook(lambda _, __, out: seen.append(out))
    cap = model.config.final_logit_softcapping
    for row in rows:
        with torch.inference_mode():
            model(torch.from_numpy(row.ids)[None])
            out = seen[-1][0] if isinstance(seen[-1], tuple) else seen[-1]
            z = cap * torch.tanh(model.lm_head(model.base_model.norm(out))[0] / cap)
        logits += [each.double().numpy() for each in z[row.scored - 1]]
        documents += [row.document] * len(row.scored)
        targets += row.ids[row.scored].tolist()
    agree(got, by_hand(logits, documents, targets))
    pd.testing.assert_frame_equal(whole(ranker, rows), before)  # it has all its layers again


def test_rounding_by_hand():
    weights = torch.tensor([[0.9, -0.2, 0.31, 0.0], [0.0, 0.0, 0.0, 0.0]])
    # 2 bits: −0.9, 0, 0.9; 3 bits: multiples of 0.3
    assert torch.allclose(round_weights(weights, 2), torch.tensor([[0.9, 0, 0, 0], [0, 0, 0, 0]]))
    assert torch.allclose(round_weights(weights, 3), torch.tensor([[0.9, -0.3, 0.3, 0], [0, 0, 0, 0]]))
    wide = torch.cat([weights[:1].repeat(1, 16), 10 * weights[:1]], 1)  # a second group has its own largest
    assert torch.allclose(round_weights(wide, 3)[:, -4:], torch.tensor([[9.0, -3.0, 3.0, 0.0]]))
    many = torch.randn(7, 100)
    assert 0 < (round_weights(many, 8) - many).abs().max() <= many.abs().max() / 127 / 2 * 1.001


def test_weights_come_back_bit_for_bit_also_after_an_error(make):
    ranker, _ = make("neox")
    model = ranker.language.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    changed = {id(matrix) for matrix in select_matrices(model)}
    for step in (Step("weights", 0.5), Step("bits", 3), Step("depth", 0)):
        with suppress(KeyError), degraded(ranker.language, step):
            same = {name: torch.equal(own, before[name]) for name, own in model.named_parameters()}
            raise KeyError
        if step.path != "depth":
            assert same == {name: id(own) not in changed for name, own in model.named_parameters()}
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not changed & {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}


def test_sums_at_temperatures_are_those_of_the_divided_logits(make):
    ranker, rows = make("gemma2")
    got = whole(ranker, rows)
    model = ranker.language.model
    outputs = [model(torch.from_numpy(row.ids)[None]).logits[0, row.scored - 1] for row in rows]
    logits = torch.cat(outputs).double().detach()
    targets = torch.from_numpy(np.concatenate([row.ids[row.scored] for row in rows]))
    for temperature in TEMPERATURES:
        beta = torch.tensor(1 / temperature, dtype=torch.float64, requires_grad=True)
        total = torch.nn.functional.cross_entropy(logits * beta, targets, reduction="sum")
        (slope,) = torch.autograd.grad(total, beta)
        assert got[f"nll_{temperature}"].sum() == pytest.approx(float(total.detach()), rel=1e-5)
        assert got[f"slope_{temperature}"].sum() == pytest.approx(float(slope), rel=1e-4, abs=0.05)
