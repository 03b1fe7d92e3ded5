import logging

import pytest
import torch
from tiny import write_texts

from companion.chapters.appendix import ranking
from rbp.choices import Settings
from rbp.extract.extraction import extract
from rbp.measurements.ranked import Ranked, every_k
from rbp.metric import rbp
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.texts.protocol import protocol

TEXTS = ["The rank of a token is −ln of nothing: α ≤ β, “quoted”.\n\nIt counts.", "def rank(scores): return 1\n"]
CPU = Settings(device="cpu", backend="reference")


MODEL = "data/ladder/families/neox/neox-10k-at-8m"
TOKENS, ROWS = 4096, 4224  # of the tokenizer, and of the output layer once it is padded
WINDOWS = protocol("windows", length=64)


@pytest.fixture(scope="module")
def padded(tmp_path_factory):
    """The ladder's smallest model with rows beyond its tokens, as Pythia's have."""
    folder = tmp_path_factory.mktemp("padded")
    files = find_model(ranking.project_path(MODEL))
    model = load_model(files, "float32", torch.device("cpu")).model
    torch.manual_seed(0)
    model.resize_token_embeddings(ROWS)
    model.save_pretrained(folder)
    load_tokenizer(files).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def study(tmp_path_factory, padded):
    folder = tmp_path_factory.mktemp("ranks")
    two = write_texts(folder / "two.jsonl", TEXTS)
    return ranking.rank_variants(padded, str(two), WINDOWS, CPU, folder / "ranks")


@pytest.fixture(scope="module")
def logits(study):
    """Of each ranked token, from the model itself: [T, V], and the truths [T]."""
    language = load_model(find_model(study.model), "float32", torch.device("cpu"))
    rows, truths = [], []
    for text in TEXTS:
        ids = torch.tensor(study.tokenizer(text)["input_ids"])
        with torch.no_grad():
            rows.append(language.model(input_ids=ids[None]).logits[0, :-1])
        truths.append(ids[1:])
    return torch.cat(rows), torch.cat(truths)


@pytest.mark.long
def test_ranks_and_cross_entropy_are_those_of_the_models_own_logits(study, logits):
    scores, truth = logits
    order = (-scores).argsort(dim=1)
    own = (order == truth[:, None]).int().argmax(1).numpy() + 1
    ranks = Ranked(study.stores["all"]).ranks
    assert (ranks == own).mean() > 0.99, "but for ties and last bits"
    entropy = torch.nn.functional.cross_entropy(scores, truth).item()
    table = study.padding("paper").set_index("logits")
    assert table.cross_entropy["all"] == pytest.approx(entropy, rel=1e-5)
    assert table["rows"].to_dict() == {"all": ROWS, "tokenizer": TOKENS}
    without = torch.nn.functional.cross_entropy(scores[:, :TOKENS], truth).item()
    assert table.cross_entropy["tokenizer"] == pytest.approx(without, rel=1e-5)
    curve = every_k(Ranked(study.stores["all"]))
    assert curve.rbp.tolist() == pytest.approx([rbp(own, k) for k in curve.k], abs=0.02)


def test_ties_among_rounded_logits_are_those_of_the_models_own(study, logits):
    scores, truth = logits
    rounded = scores.bfloat16()
    mine = rounded.gather(1, truth[:, None])
    equal, greater = (rounded == mine).sum(1), (rounded > mine).sum(1)
    row = study.ties().set_index("logits").loc["bfloat16"]
    assert row.tied == pytest.approx((equal > 1).float().mean().item(), abs=0.03)
    assert row.strict == pytest.approx((greater == 0).float().mean().item(), abs=0.03)
    assert row.paper <= row.expected <= row.strict
    assert row.tied > study.ties().tied[0]


@pytest.mark.long
def test_nothing_is_ranked_twice_and_the_extraction_says_how_far_it_is(tmp_path, monkeypatch):
    """A model of no more rows than its tokenizer has tokens is ranked once as it is, and once rounded."""
    calls = []
    monkeypatch.setattr(ranking, "extract", lambda *given: calls.append(given) or extract(*given))
    text = write_texts(tmp_path / "two.jsonl", TEXTS)
    study = ranking.rank_variants(ranking.project_path(MODEL), str(text), WINDOWS, CPU, tmp_path / "ranks")
    assert len(calls) == 2
    assert study.stores["tokenizer"] is study.stores["all"]
    assert logging.getLogger("rbp").isEnabledFor(logging.INFO)  # the extraction's progress
