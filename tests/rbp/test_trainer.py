"""Ranks while a model is trained, beside those of the logits and of `rbp extract`."""

import doctest

import numpy as np
import pytest
import tiny
import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback, TrainingArguments

from rbp import trainer as integration
from rbp.extract.extraction import extract
from rbp.store import open_store
from rbp.texts.protocol import protocol
from rbp.trainer import RankCallback, rank_metrics


class Copies(TrainerCallback):
    """Saves the model at each step."""

    def __init__(self, folder, tokenizer):
        self.folder, self.tokenizer = folder, tokenizer

    def on_step_end(self, args, state, control, model=None, **objects):
        model.save_pretrained(self.folder / str(state.global_step))
        self.tokenizer.save_pretrained(self.folder / str(state.global_step))


def test_a_batch_against_its_logits():
    torch.manual_seed(0)
    hidden, weight = torch.randn(3, 7, 16), torch.randn(50, 16)
    labels = torch.randint(50, (3, 7))
    labels[0, :4] = -100
    found = rank_metrics(hidden, weight, labels, ks=[1, 5, 50])
    logits, scored = hidden @ weight.T, labels != -100
    truth = logits.gather(2, labels.clamp(min=0)[..., None])
    ranks = (logits >= truth).sum(2)[scored]
    assert found == pytest.approx(
        {
            **{f"rbp_{k}": float((ranks <= k).float().mean()) for k in (1, 5, 50)},
            "cross_entropy": float(cross_entropy(logits.flatten(0, 1), labels.flatten())),
        },
        abs=1e-5,
    )


def test_the_example_runs():
    assert doctest.testmod(integration).failed == 0


HELD_OUT = tiny.texts(6, seed=1)


def train(model, folder, callback, **options):
    """A Trainer after `options["max_steps"]` steps on tiny texts, and its log of ranks by step."""
    tokenizer = tiny.make_tokenizer(pad_token="<|end|>")  # noqa: S106
    ids = [tokenizer(text)["input_ids"][:32] for text in tiny.texts(60, seed=3) if len(text) > 200]
    data = Dataset.from_dict({"input_ids": ids, "labels": ids})
    options |= {"per_device_train_batch_size": 1, "report_to": "none", "use_cpu": True, "disable_tqdm": True}
    arguments = TrainingArguments(str(folder / "out"), **options)
    callbacks = [Copies(folder / "saved", tokenizer), callback]
    trainer = Trainer(model, arguments, train_dataset=data, processing_class=tokenizer, callbacks=callbacks)
    trainer.train()
    return trainer, {entry["step"]: entry for entry in trainer.state.log_history if "eval_rbp_1" in entry}


def extracted(model, folder, **how):
    """The ranks of a saved model on the held-out texts, by `rbp extract`."""
    corpus = tiny.write_texts(folder / "held.jsonl", HELD_OUT)
    (store,) = extract([str(model)], [str(corpus)], protocol("windows", length=256, **how), folder / "ranks")
    return open_store(store).ranks()


@pytest.mark.long
def test_a_trainer_logs_what_extraction_finds(tmp_path):
    """At steps 2, 4 and the last; in bfloat16, which the Trainer puts around the model, not around its layers."""
    how = {"max_steps": 5, "learning_rate": 0.01, "activation_checkpointing": True, "bf16": True}
    how |= {"logging_steps": 1000, "save_strategy": "no"}
    callback = RankCallback(HELD_OUT, ks=[1, 10], every=2, bos="always")
    trainer, logs = train(tiny.random_model("neox"), tmp_path, callback, **how)
    assert [*logs] == [2, 4, 5]
    assert trainer.model.training
    for step in (2, 5):
        ranks = extracted(tmp_path / "saved" / str(step), tmp_path, bos="always")
        for k in (1, 10):
            share = float((ranks.greater + ranks.equal <= k).mean())
            assert logs[step][f"eval_rbp_{k}"] == pytest.approx(share, abs=1e-9)
        assert logs[step]["eval_cross_entropy"] == pytest.approx(float(ranks.nll.astype(np.float64).mean()), abs=1e-6)
