"""Appendix B ranks a text's tokens in several dtypes: against the model's own logits."""

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
MODEL = "data/ladder/families/neox/neox-10k-at-8m"


@pytest.mark.long
def test_ranks_and_ties_are_those_of_the_models_own_logits(tmp_path):
    two = write_texts(tmp_path / "two.jsonl", TEXTS)
    settings = Settings(device="cpu", backend="reference")
    study = ranking.rank_variants(MODEL, str(two), protocol("windows", length=64), settings, tmp_path / "ranks")
    language = load_model(find_model(study.model), "float32", torch.device("cpu"))
    rows, truths = [], []
    for text in TEXTS:
        ids = torch.tensor(study.tokenizer(text)["input_ids"])
        with torch.no_grad():
            rows.append(language.model(input_ids=ids[None]).logits[0, :-1])
        truths.append(ids[1:])
    scores, truth = torch.cat(rows), torch.cat(truths)[:, None]
    own = ((-scores).argsort(dim=1) == truth).int().argmax(1).numpy() + 1
    assert (Ranked(study.stores["all"]).ranks == own).mean() > 0.99, "but for ties and last bits"
    curve = every_k(Ranked(study.stores["all"]))
    assert curve.rbp.tolist() == pytest.approx([rbp(own, k) for k in curve.k], abs=0.02)
    rounded = scores.bfloat16()
    mine = rounded.gather(1, truth)
    row = study.ties().set_index("logits").loc["bfloat16"]
    assert row.tied == pytest.approx(((rounded == mine).sum(1) > 1).float().mean().item(), abs=0.03)
    assert row.strict == pytest.approx(((rounded > mine).sum(1) == 0).float().mean().item(), abs=0.03)
    assert row.paper <= row.expected <= row.strict
