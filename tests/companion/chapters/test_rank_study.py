import pytest
import torch
from tiny import write_texts

from companion.chapters.appendix import ranking
from rbp.choices import Settings
from rbp.measurements.ranked import Ranked, every_k
from rbp.metric import rbp
from rbp.models.find import find_model
from rbp.models.load import load_model
from rbp.texts.protocol import protocol

TEXTS = ["The rank of a token is −ln of nothing: α ≤ β, “quoted”.\n\nIt counts.", "def rank(scores): return 1\n"]
CPU = Settings(device="cpu", backend="reference")
MODEL = "data/ladder/families/neox/neox-10k-at-8m"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    two = write_texts(folder / "two.jsonl", TEXTS)
    return ranking.rank_variants(MODEL, str(two), protocol("windows", length=64), CPU, folder / "ranks")


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


def test_ranks_are_those_of_the_models_own_logits(study, logits):
    scores, truth = logits
    order = (-scores).argsort(dim=1)
    own = (order == truth[:, None]).int().argmax(1).numpy() + 1
    assert (Ranked(study.stores["all"]).ranks == own).mean() > 0.99, "but for ties and last bits"
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
