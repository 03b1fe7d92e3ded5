"""Padding that a model sees, because its positions are encoded by the length of the input, or because it has
no position for the padding. The ranks are those of the model's own logits for the row alone, also where rows are
padded, as on a GPU."""

import torch
from tiny import save_model

from rbp.extract.forward import Ranker
from rbp.extract.models import find_model, load_model, looks_at_length
from rbp.extract.protocol import Row


def test_the_configurations_that_say_it():
    for kind in ("dynamic", "longrope"):
        assert looks_at_length({"rope_parameters": {"rope_type": kind}})
        assert looks_at_length({"rope_scaling": {"type": kind, "factor": 2.0}})
        assert looks_at_length({"text_config": {"rope_parameters": {"full_attention": {"rope_type": kind}}}})
    for kind in ("default", "linear", "yarn", "llama3", "proportional"):
        assert not looks_at_length({"rope_parameters": {"rope_type": kind}})
    assert not looks_at_length({"rope_scaling": None, "activation": "dynamic"})


def test_what_no_configuration_says_is_found_out(tmp_path, caplog):
    """A model that looks at the length in a way of its own, and rows padded as on a GPU."""
    language = load_model(find_model(str(save_model(tmp_path))), "float32", torch.device("cpu"))
    rows = [Row(i, 0, torch.arange(3, 3 + n).numpy(), torch.arange(1, n).numpy()) for i, n in enumerate((20, 64, 90))]
    assert not Ranker(language, "reference", 1).padded, "on a CPU"
    plain = Ranker(language, "reference", 2, padded=True)
    plain.check(rows)
    assert plain.padded
    language.model.base_model.ln_f.register_forward_hook(
        lambda _, __, out: out * torch.linspace(1, out.shape[1], out.shape[2])
    )
    ranker, alone = Ranker(language, "reference", 2, padded=True), Ranker(language, "reference", 2)
    wrong = plain.rank(rows)
    ranker.check(rows)
    assert not ranker.padded
    assert "looks at the length of its input" in caplog.text
    right = alone.rank(rows)
    assert (ranker.rank(rows).greater == right.greater).all()
    assert (wrong.nll != right.nll).mean() > 0.5  # had it not been found out
