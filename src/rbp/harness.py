"""RBP in lm-evaluation-harness (the extra `lm-eval`): its tasks and its command, answered by our ranks.

lm-eval 0.4.13 finds no models of other packages, so `run` calls lm-eval's own command with ours. The model is lm-eval's
type `hf` with the model object that `rbp` loaded; only tokens are scored differently. No text is read twice.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import lm_eval
import numpy as np
import torch
from lm_eval.__main__ import cli_evaluate
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from rbp.choices import Settings, known_dtype
from rbp.errors import DataError, ParameterError, first_line
from rbp.extract.extraction import Opened, quiet, write_ranks
from rbp.extract.forward import Ranker, Tokens, default_batch, joined
from rbp.extract.probe import Probe
from rbp.io import canonical_json
from rbp.kernel import backend_for
from rbp.kernel.problem import ieee
from rbp.laws.resampling import means_with_errors
from rbp.metric import rank
from rbp.models.devices import find_device
from rbp.models.find import find_model
from rbp.texts.corpora import Corpus
from rbp.texts.protocol import Row

TESTED = "0.4.13"  # its private methods are overridden: another release may call them differently
OPTIONS = ("revision", "tokenizer", "batch_size", "max_batch_size", "max_length", "add_bos_token", "prefix_token_id")

Samples: TypeAlias = Sequence[dict[str, Any]]  # of a task, as lm-eval logs them


class Total(float):
    """Σ ln p of some tokens, in nats, with the tokens; a sum of several, as lm-eval makes of windows, joins these."""

    tokens: Tokens

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Total):
            return self if other == 0 else float(self) + other
        first, second = self.tokens, other.tokens
        after = second._replace(position=second.position - second.position[0] + first.position[-1] + 1)
        return total_of(joined([first, after]))

    __radd__ = __add__


def total_of(tokens: Tokens) -> Total:
    """Sum up tokens."""
    total = Total(-tokens.nll.sum(dtype=np.float64))
    total.tokens = tokens
    return total


class RankLM(HFLM):  # type: ignore[misc]
    """lm-eval's `hf` with our loading and ranking: a folder, a GGUF file, an adapter or a hub id. See `run`."""

    def __init__(self, pretrained: str, dtype: str = "float32", device: str | None = None, **options: Any) -> None:
        if unknown := [name for name in options if name not in OPTIONS]:  # `hf` would ignore them beside a model object
            available = ", ".join(("pretrained", "dtype", "device", *OPTIONS))
            raise ParameterError(f"unknown: {', '.join(unknown)}", "--model_args", f"There is: {available}.")
        must_be_tested()
        files = find_model(pretrained, options.pop("revision", None), options.pop("tokenizer", None))
        # lm-eval's own default is cuda:0, which it leaves where there is none
        place = find_device(device if device and (torch.cuda.is_available() or "cuda" not in device) else "auto")
        batch_size = str(options.pop("batch_size", "auto"))  # on a CPU rows are passes of their own, side by side
        rows = int(batch_size) if batch_size.isdigit() and place.type != "cpu" else default_batch(place)
        self.opened = Opened(files, Settings(dtype=known_dtype(dtype)), place)
        with quiet():
            language = self.opened.language
        self.ranker = Ranker(language, backend_for(place, getattr(torch, language.dtype)), rows, compiled=False)
        self.probe: Probe | None = None
        super().__init__(language.model, tokenizer=self.opened.tokenizer, batch_size=rows, **options)

    def _loglikelihood_tokens(self, requests: Sequence[Any], disable_tqdm: bool = False, **_: Any) -> list[Any]:
        """Answer requests (text, context, continuation): Σ ln p, and whether no logit is above that of any token."""
        rows = []
        for i, (text, context, continuation) in enumerate(requests):
            if not (context and 0 < len(continuation) <= self.max_length):
                fault = f"an answer of {len(continuation):,} tokens, where the model reads 1 to {self.max_length:,}"
                raise DataError(fault, repr(text), "Leave the task out, or change it.")
            ids = np.array((context + continuation)[-self.max_length - 1 :])  # the last one is scored, and not read
            rows.append(Row(i, 0, ids, np.arange(len(ids) - len(continuation), len(ids))))
        with quiet(), ieee(self.ranker.language.device):
            if rows and self.probe is None:
                self.probe = self.ranker.check([replace(row, ids=row.ids[: self.max_length]) for row in rows])
            ranked = tqdm(self.ranker.rank_each(rows), "Ranking", len(rows), disable=disable_tqdm, delay=2)
            return [(total_of(tokens), bool((tokens.greater == 0).all())) for tokens in ranked]


def answer_of(sample: dict[str, Any]) -> Tokens | None:
    """Find the tokens of a sample's answer; None where none was scored, or where it is not known which is correct.

    One request: its tokens. Several, the choices after one question: those of the correct choice.
    """
    responses, place = [response[0] for response in sample["resps"]], 0
    if len(responses) > 1:
        target, asked = sample["target"], sample["arguments"]
        texts = [arguments[-1].strip() for arguments in asked]
        if isinstance(target, str) and texts.count(target.strip()) == 1:
            target = texts.index(target.strip())
        varied = asked[0][0] != asked[1][0]  # the question, not the answer
        if varied or not (isinstance(target, int) and 0 <= target < len(texts)):
            return None
        place = target
    total = responses[place][0] if isinstance(responses[place], tuple) else responses[place]
    return total.tokens if isinstance(total, Total) else None


def answers_of(samples: Samples) -> dict[str, Any]:
    """Collect the tokens of a task's answers, as columns of a rank store; {} where no answer is known.

    Positions are among the tokens of a request. A document counts once, whatever filters its answers pass.
    """
    answers = {sample["doc_id"]: answer_of(sample) for sample in sorted(samples, key=lambda sample: sample["doc_id"])}
    found = {document: tokens for document, tokens in answers.items() if tokens is not None}
    documents = np.repeat(list(found), [len(tokens.nll) for tokens in found.values()])
    return {"document": documents, **joined([*found.values()])._asdict()} if found else {}


def summarize(answers: dict[str, Any], ks: Sequence[int]) -> dict[str, float | str]:
    """Compute RBP_k, cross-entropy (nats a token), tokens and tied tokens of a task, as lm-eval names metrics.

    Standard errors are of leaving out a document at a time.
    """
    ranks = rank(answers["greater"], answers["equal"])
    columns = {"cross_entropy": answers["nll"]} | {f"rbp_{k}": ranks <= k for k in ks}
    metrics: dict[str, float | str] = {}
    for name, (mean, error) in means_with_errors(columns, answers["document"]).items():
        metrics[f"{name},none"] = mean
        metrics[f"{name}_stderr,none"] = "N/A" if math.isnan(error) else error
    return metrics | {"rbp_tokens,none": len(ranks), "rbp_tied_tokens,none": int((answers["equal"] > 1).sum())}


def write_store(model: RankLM, task: str, samples: Samples, answers: dict[str, Any], out: Path) -> Path:
    """Keep the ranks of a task's answers as a rank store below the folder `out`; gives its place.

    Stores of two models compare where the requests are the same, to the letter.
    """
    requests = sorted({sample["doc_id"]: sample["arguments"] for sample in samples}.items())
    text = Corpus(task, (), {"task": task, "requests": sha256(canonical_json(requests).encode()).hexdigest()})
    reading = {"name": f"lm-eval {TESTED}", "length": model.max_length}
    return write_ranks(model.opened, model.ranker, text, reading, answers, out)


def must_be_tested() -> None:
    """Raise DataError for a release of lm-eval that this was not tested with."""
    if (installed := version("lm_eval")) != TESTED:
        fault = f"lm-eval {installed} is installed, and rbp was tested with {TESTED}"
        raise DataError(fault, "rbp lm-eval", f"pip install lm-eval=={TESTED}")


def run(arguments: Sequence[str], ks: Sequence[int], out: Path | None = None) -> None:
    """Run lm-eval's own command with these arguments, whose model is of the type `rbp`.

    Adds to each task's results what `summarize` gives, and how many documents have no known answer. out: a folder for
    rank stores. Raises what loading and ranking do, DataError for an untested lm-eval, and ParameterError for arguments
    that lm-eval or we cannot take.
    """
    must_be_tested()
    evaluate = lm_eval.simple_evaluate

    def evaluated(*, model: str, model_args: dict[str, Any] | None, log_samples: bool, **options: Any) -> Any:
        if model != "rbp":
            raise ParameterError(f"the model type {model} gives no ranks", "--model", "Give --model rbp.")
        if options.get("use_cache"):
            raise ParameterError("answers from a cache have no ranks", "--use_cache", "Leave it out.")
        chosen_options = {
            name: options[name] for name in ("batch_size", "max_batch_size", "device") if options.get(name)
        }
        try:
            built = RankLM(**chosen_options | (model_args or {}))
        except TypeError:
            raise ParameterError("no model is given", "--model_args", "Give pretrained=MODEL.") from None
        results = evaluate(model=built, model_args=model_args, log_samples=True, **options)
        for task, samples in results["samples"].items():
            if answers := answers_of(samples):
                results["results"][task] |= summarize(answers, ks)
                if left_out := len({sample["doc_id"] for sample in samples} - {*answers["document"].tolist()}):
                    results["results"][task]["rbp_not_counted,none"] = left_out
                if out is not None:
                    print(write_store(built, task, samples, answers, out), file=sys.stderr)  # noqa: T201
        results["config"]["model"] = model
        return results if log_samples else {name: result for name, result in results.items() if name != "samples"}

    with patch.object(lm_eval, "simple_evaluate", evaluated), patch.object(sys, "argv", ["lm-eval", *arguments]):
        try:
            cli_evaluate()
        except ValueError as error:  # a task that there is not, arguments that contradict one another
            raise ParameterError(first_line(error), "lm-eval", "rbp lm-eval ls tasks lists the tasks.") from error
