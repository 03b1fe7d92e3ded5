"""RBP_k while a model is trained: a callback for the Trainer of transformers, and the numbers for loops by hand."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import CallbackHandler

from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import quiet
from rbp.extract.forward import Ranker, default_batch
from rbp.extract.probe import Probe
from rbp.kernel import backend_for, compiling_pays, linear_rank
from rbp.kernel.problem import ieee
from rbp.metric import rank, rbp
from rbp.models.identity import untouched
from rbp.models.load import Loaded, load_model
from rbp.texts.corpora import given_corpus
from rbp.texts.protocol import Bos, RowPlan, Score, Special, plan_rows, protocol

KS = (1, 10, 100)
IGNORED = -100  # the label that stands for none, as everywhere in transformers


def rank_metrics(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, ks: Sequence[int] = KS, **options: Any
) -> dict[str, float]:
    """Compute RBP_k and cross-entropy of a batch from the output layer's input; its logits are never stored.

    hidden: […, d], the last hidden states; weight: [V, d], of the output layer; labels: […], the token that each of
    them has to predict (shifted already), or -100 for none. ks: thresholds, 1 to V. options: of `linear_rank`, such
    as a bias. Gives rbp_k for each k, by the paper's tie rule, and cross_entropy (nats).
    Raises ParameterError for shapes that do not fit and for a k that is no rank, DataError if no label is left, and
    RankError where a logit is NaN.

    >>> states, output = torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.eye(2)
    >>> rank_metrics(states, output, torch.tensor([1, 1]), ks=[1, 2])["rbp_1"]
    0.5
    """
    if hidden.shape[:-1] != labels.shape:
        fault = f"hidden states of shape {tuple(hidden.shape)} and labels of shape {tuple(labels.shape)} do not fit"
        raise ParameterError(fault, "labels", "Give a label, or -100, for each hidden state.")
    _thresholds(ks, weight.shape[0])
    scored = labels != IGNORED
    if not scored.any():
        raise DataError("no label is left", "labels", "Give at least one that is not -100.")
    # a loop calls it with little at a time, which is counted before anything is compiled for it
    options = {"compiled": compiling_pays(int(scored.sum()) * weight.shape[0]), **options}
    ranks = linear_rank(hidden[scored].detach(), weight.detach(), labels[scored], **options)
    return _metrics(ranks.greater.cpu().numpy(), ranks.equal.cpu().numpy(), ranks.nll.cpu().numpy(), ks)


class RankCallback(TrainerCallback):
    """Logs RBP_k and the cross-entropy of held-out texts, and gives them to a Trainer as metrics of its evaluations.

    So `metric_for_best_model="eval_rbp_1"` (with `greater_is_better=True`), `load_best_model_at_end` and early stopping
    work. The names are eval_rbp_1 … and eval_cross_entropy (nats). eval_texts: strings, or a `datasets.Dataset`
    with a column text, or with prompt and completion, of which only the completion is scored. ks: thresholds.
    every: so many steps, after the last one, and at each evaluation. tokenizer: the Trainer's `processing_class` if
    None. length: tokens that the model reads at once (None: 1 024, or as it can); each token is scored once, with
    half of that before it. field, prompt: as for `rbp.rank`; bos, special, score: as `rbp extract` has them.

    Ranks are as by `rbp extract`, of the weights as they are: in float32 where training computes in mixed
    precision. An evaluation took 0.46 of the time of `Trainer.evaluate` on the same texts, on two cores. Raises
    ParameterError for thresholds that are no ranks, steps below 1, what are no texts, and a Trainer without a
    tokenizer; DataError for texts without a token to score, and weights that are cut among processes (FSDP, ZeRO-3).

        >>> Trainer(model, arguments, train_dataset=data, processing_class=tokenizer,
        ...         callbacks=[RankCallback(texts, ks=[1, 10], every=50)]).train()  # doctest: +SKIP
    """

    def __init__(
        self,
        eval_texts: Iterable[str] | Iterable[Mapping[str, Any]],
        ks: Sequence[int] = KS,
        every: int = 500,
        *,
        tokenizer: Any = None,
        length: int | None = None,
        bos: Bos = "auto",
        special: Special = "token",
        score: Sequence[Score] = (),
        field: str | None = None,
        prompt: str | None = None,
    ) -> None:
        if every < 1:
            raise ParameterError(f"every {every} steps", "every", "Give at least 1.")
        self.texts = given_corpus(eval_texts, "eval_texts", field, prompt)
        self.ks, self.every, self.tokenizer, self.length = tuple(ks), every, tokenizer, length
        self._windows = partial(protocol, "windows", bos=bos, special=special, score=score)
        self._windows()  # which refuses what it does not know
        self._plan: RowPlan | None = None
        self._probe: Probe | None = None
        self._pending: dict[str, float] = {}
        self._latest: tuple[int, dict[str, float]] | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **objects: Any
    ) -> None:
        """Tokenize the texts, and go before the callbacks that report, so that they get what this one adds to a log."""
        handler = sys._getframe(1).f_locals.get("self")  # no event hands it out
        if isinstance(handler, CallbackHandler) and self in handler.callbacks:
            handler.callbacks.remove(self)
            handler.callbacks.insert(0, self)
        model = objects["model"]
        if args.fsdp or getattr(model, "is_zero3_params", False) or args.deepspeed:
            remedy = "Save checkpoints, and give their folders to rbp extract."
            raise DataError("the weights are cut among processes", "RankCallback", remedy)
        _thresholds(self.ks, model.get_output_embeddings().weight.shape[0])
        self._probe = self._latest = None
        self._loaded = Loaded("the model in training", model, self.tokenizer or objects.get("processing_class"))
        windows = self._windows(length=self.length, configs=[self._loaded.config])
        self._plan = plan_rows(self.texts, self._loaded.tokenizer, windows)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **objects: Any
    ) -> None:
        """Rank, where it is time to, and ask for a log."""
        if state.global_step % self.every and state.global_step < state.max_steps:
            return
        control.should_log = True
        if state.is_world_process_zero:
            self._pending = self._measured_at(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **objects: Any,
    ) -> None:
        """Add what was found to the log, and to the history that the Trainer keeps."""
        if self._plan is not None and "eval_runtime" in (logs or {}):  # of an evaluation, before those who read it
            self._pending = self._measured_at(state.global_step)
        for record in (logs, state.log_history[-1] if state.log_history else None):
            if record is not None:
                record.update(self._pending)
        self._pending = {}

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **objects: Any,
    ) -> None:
        """Add the ranks to an evaluation's metrics, on every process: each chooses the best model by them."""
        if self._plan is not None and metrics is not None:
            metrics.update(self._measured_at(state.global_step))

    def _measured_at(self, step: int) -> dict[str, float]:
        if self._latest is None or self._latest[0] != step:
            self._latest = step, {f"eval_{name}": value for name, value in self._measured().items()}
        return self._latest[1]

    def _measured(self) -> dict[str, float]:
        assert self._plan is not None  # noqa: S101  # for the type checker: training has begun
        device = next(self._loaded.model.parameters()).device
        language = load_model(self._loaded, self._loaded.dtype, device)
        backend = backend_for(device, getattr(torch, language.dtype))
        compiled = compiling_pays(self._plan.tokens * language.vocabulary)
        with quiet(), ieee(device), untouched(self._loaded.model):
            ranker = Ranker(language, backend, default_batch(device), compiled=compiled)
            self._probe = ranker.check(self._plan.rows, self._probe)
            ranks = ranker.rank(self._plan.rows)
            return _metrics(ranks.greater, ranks.equal, ranks.nll, self.ks)


def _thresholds(ks: Sequence[int], vocabulary: int) -> None:
    wrong = [k for k in ks if not 1 <= k <= vocabulary]
    if wrong or not ks:
        fault = f"k = {wrong[0]} is not among the ranks 1 to {vocabulary}" if wrong else "there is no threshold"
        raise ParameterError(fault, "ks", f"Give some from 1 to {vocabulary}.")


def _metrics(greater: Any, equal: Any, nll: Any, ks: Sequence[int]) -> dict[str, float]:
    ranks = rank(greater, equal)
    accuracies = {f"rbp_{k}": rbp(ranks, k) for k in ks}
    return {**accuracies, "cross_entropy": float(np.mean(nll, dtype=np.float64))}
