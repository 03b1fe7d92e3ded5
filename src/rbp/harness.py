"""RBP in lm-evaluation-harness (the extra `lm-eval`): its tasks and its command, answered by our ranks.

lm-eval 0.4.13 finds no models of other packages, so `run` calls lm-eval's own command with ours. The model is lm-eval's
type `hf` with the model object that `rbp` loaded; only tokens are scored differently. No text is read twice.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import lm_eval
import numpy as np
import numpy.typing as npt
import torch
from lm_eval.__main__ import cli_evaluate
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from rbp.choices import known_dtype
from rbp.errors import DataError, ParameterError, first_line
from rbp.extract.extraction import circumstances, family_name, quiet
from rbp.extract.forward import Ranker
from rbp.io import canonical_json
from rbp.kernel import backend_for
from rbp.kernel.problem import ieee
from rbp.laws.resampling import document_sums, variance, without_each
from rbp.metric import rank
from rbp.models.devices import find_device
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import find_place
from rbp.texts.protocol import Row

TESTED = "0.4.13"  # its private methods are overridden: another release may call them differently
KS = (1, 10, 100)
PACK = 256  # requests from one step of the progress bar to the next
OPTIONS = ("revision", "tokenizer", "batch_size", "max_batch_size", "max_length", "add_bos_token", "prefix_token_id")


class Tokens(NamedTuple):
    """Scored tokens, one after the other: positions among the tokens of their request, and as in a rank store."""

    position: npt.NDArray[np.int64]
    token: npt.NDArray[np.int64]
    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float32]
    top: npt.NDArray[np.int64]


class Total(float):
    """Σ ln p of some tokens, in nats, with the tokens; a sum of several, as lm-eval makes of windows, joins these."""

    tokens: Tokens

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Total):
            return self if other == 0 else float(self) + other
        one, two = self.tokens, other.tokens
        after = two._replace(position=two.position - two.position[0] + one.position[-1] + 1)
        return total_of(joined([one, after]))

    __radd__ = __add__


def joined(parts: Iterable[Tokens]) -> Tokens:
    """Join the tokens of several requests."""
    return Tokens(*map(np.concatenate, zip(*parts, strict=True)))


def total_of(tokens: Tokens) -> Total:
    """Sum up tokens."""
    total = Total(-tokens.nll.sum(dtype=np.float64))
    total.tokens = tokens
    return total


class RankLM(HFLM):  # type: ignore[misc]
    """lm-eval's `hf` with our loading and ranking: a folder, a GGUF file, an adapter or a hub id. See `run`."""

    def __init__(self, pretrained: str, dtype: str = "float32", device: str | None = None, **options: Any) -> None:
        if unknown := [name for name in options if name not in OPTIONS]:  # `hf` would ignore them beside a model object
            known = ", ".join(("pretrained", "dtype", "device", *OPTIONS))
            raise ParameterError(f"unknown: {', '.join(unknown)}", "--model_args", f"There is: {known}.")
        must_be_tested()
        self.files = find_model(pretrained, options.pop("revision", None), options.pop("tokenizer", None))
        # lm-eval's own default is cuda:0, which it leaves where there is none
        place = find_device(device if device and (torch.cuda.is_available() or "cuda" not in device) else "auto")
        encoder = load_tokenizer(self.files)
        usual = 4 * torch.get_num_threads() if place.type == "cpu" else 32
        rows = int(given) if (given := str(options.pop("batch_size", 1))).isdigit() else usual
        with quiet(), self.files.unchanged():
            self.fingerprints = {"weights": self.files.fingerprint()}
            self.fingerprints["tokenizer"] = self.files.tokenizer_fingerprint(encoder)
            language = load_model(self.files, known_dtype(dtype), place)
        self.ranker = Ranker(language, backend_for(place, getattr(torch, language.dtype)), rows, compiled=False)
        self.checked = False
        super().__init__(language.model, tokenizer=encoder, batch_size=rows, **options)

    def _loglikelihood_tokens(self, requests: Sequence[Any], disable_tqdm: bool = False, **_: Any) -> list[Any]:
        """Answer requests (text, context, continuation): Σ ln p, and whether no logit is above that of any token."""
        rows = []
        for i, (text, context, continuation) in enumerate(requests):
            if not (context and 0 < len(continuation) <= self.max_length):
                what = f"an answer of {len(continuation):,} tokens, where the model reads 1 to {self.max_length:,}"
                raise DataError(what, repr(text), "Leave the task out, or change it.")
            ids = np.array((context + continuation)[-self.max_length - 1 :])  # the last one is scored, and not read
            rows.append(Row(i, 0, ids, np.arange(len(ids) - len(continuation), len(ids))))
        packs = [rows[i : i + PACK] for i in range(0, len(rows), PACK)]
        answers = []
        with quiet(), ieee(self.ranker.language.device):
            if rows and not self.checked:
                self.ranker.check([replace(row, ids=row.ids[: self.max_length]) for row in rows])
                self.checked = True
            shown = tqdm(self.ranker.rank_packs(packs), "Ranking", len(packs), disable=disable_tqdm or len(packs) < 2)
            for pack, ranks in zip(packs, shown, strict=True):
                ends = np.cumsum([len(row.scored) for row in pack])[:-1]
                for row, columns in zip(pack, zip(*(np.split(c, ends) for c in ranks), strict=True), strict=True):
                    tokens = Tokens(row.scored, row.ids[row.scored], *columns)
                    answers.append((total_of(tokens), bool((tokens.greater == 0).all())))
        return answers


def answer_of(sample: dict[str, Any]) -> Tokens | None:
    """Find the tokens of a sample's answer; None where none was scored, or where it is not known which is correct.

    One request: its tokens. Several, the choices after one question: those of the correct choice.
    """
    responses, place = [response[0] for response in sample["resps"]], 0
    if len(responses) > 1:
        target, asked = sample["target"], sample["arguments"]
        texts = [arguments[-1].strip() for arguments in asked]
        if asked[0][0] != asked[1][0]:  # the question varies, not the answer
            return None
        if isinstance(target, int) and 0 <= target < len(texts):
            place = target
        elif isinstance(target, str) and texts.count(target.strip()) == 1:
            place = texts.index(target.strip())
        else:
            return None
    total = responses[place][0] if isinstance(responses[place], tuple) else responses[place]
    return total.tokens if isinstance(total, Total) else None


def answers_of(samples: Sequence[dict[str, Any]]) -> dict[int, Tokens | None]:
    """Find the answer of each document, once, whatever filters answers pass; {} where no token was scored."""
    answers = {sample["doc_id"]: answer_of(sample) for sample in sorted(samples, key=lambda each: each["doc_id"])}
    return answers if any(answers.values()) else {}


def summarize(answers: dict[int, Tokens | None], ks: Sequence[int] = KS) -> dict[str, float | str]:
    """Compute RBP_k, cross-entropy (nats a token), tokens and tied tokens of a task, as lm-eval names metrics.

    Standard errors are of leaving out a document at a time. rbp_not_counted: documents without a known answer.
    """
    counted = [tokens for tokens in answers.values() if tokens is not None]
    every = joined(counted)
    columns = {"cross_entropy": every.nll} | {f"rbp_{k}": rank(every.greater, every.equal) <= k for k in ks}
    documents = np.repeat(np.arange(len(counted)), [len(tokens.nll) for tokens in counted])
    sums = without_each(document_sums(np.column_stack([*columns.values(), np.ones(len(documents))]), documents))
    with np.errstate(invalid="ignore"):  # without the only document there is none
        values = sums[:, :-1] / sums[:, -1:]
    metrics: dict[str, float | str] = {}
    for name, value, error in zip(columns, values[0], np.sqrt(variance(values)), strict=True):
        metrics[f"{name},none"] = float(value)
        metrics[f"{name}_stderr,none"] = float(error) if len(counted) > 1 else "N/A"
    metrics |= {"rbp_tokens,none": len(documents), "rbp_tied_tokens,none": int((every.equal > 1).sum())}
    left_out = len(answers) - len(counted)
    return metrics | ({"rbp_not_counted,none": left_out} if left_out else {})


def write_store(model: RankLM, task: str, samples: Sequence[dict[str, Any]], out: Path) -> Path:
    """Keep the ranks of a task's answers as a rank store below the folder `out`; gives its place.

    Documents are the task's, positions those among the tokens of a request. Stores of two models compare where the
    requests are the same, to the letter.
    """
    answers = {document: tokens for document, tokens in answers_of(samples).items() if tokens is not None}
    requests = sorted({sample["doc_id"]: sample["arguments"] for sample in samples}.items())
    key = {
        **model.fingerprints,
        "corpus": {"task": task, "requests": sha256(canonical_json(requests).encode()).hexdigest()},
        "protocol": {"name": f"lm-eval {TESTED}", "length": model.max_length},
        "dtype": model.ranker.language.dtype,
        "backend": model.ranker.backend,
        "device": model.ranker.language.device.type,
    }
    name, family = model.files.name, family_name(model.files)
    documents = np.repeat(list(answers), [len(tokens.nll) for tokens in answers.values()])
    store = find_place(out, f"{Path(name).name}-{task}", key)
    with store.lock():
        store.clear()
        for old in (store.folder / "parts").glob("*"):
            old.unlink()
        about = {"model": name, "dataset": task, "family": family, **circumstances(model.ranker)}
        store.begin(key, about, 1, len(documents))
        store.write(0, {"document": documents, **joined(answers.values())._asdict()})
        store.finish({})
    return store.folder


def must_be_tested() -> None:
    """Raise DataError for a release of lm-eval that this was not tested with."""
    if (installed := version("lm_eval")) != TESTED:
        what = f"lm-eval {installed} is installed, and rbp was tested with {TESTED}"
        raise DataError(what, "rbp lm-eval", f"pip install lm-eval=={TESTED}")


def run(arguments: Sequence[str], ks: Sequence[int] = KS, out: Path | None = None) -> None:
    """Run lm-eval's own command with these arguments, whose model is of the type `rbp`.

    Adds to the results of each task what `summarize` gives; out: a folder of rank stores. Raises what loading and
    ranking do, DataError for an untested lm-eval, and ParameterError for arguments that lm-eval or we cannot take.
    """
    must_be_tested()
    evaluate = lm_eval.simple_evaluate

    def evaluated(*, model: str, model_args: dict[str, Any] | None, log_samples: bool, **options: Any) -> Any:
        if model != "rbp":
            raise ParameterError(f"the model type {model} gives no ranks", "--model", "Give --model rbp.")
        if options.get("use_cache"):
            raise ParameterError("answers from a cache have no ranks", "--use_cache", "Leave it out.")
        given = {name: options[name] for name in ("batch_size", "max_batch_size", "device") if options.get(name)}
        try:
            built = RankLM(**given | (model_args or {}))
        except TypeError:
            raise ParameterError("no model is given", "--model_args", "Give pretrained=MODEL.") from None
        results = evaluate(model=built, model_args=model_args, log_samples=True, **options)
        for task, samples in results["samples"].items():
            if answers := answers_of(samples):
                results["results"][task] |= summarize(answers, ks)
                if out is not None:
                    print(write_store(built, task, samples, out), file=sys.stderr)  # noqa: T201
        results["config"]["model"] = model
        return results if log_samples else {name: each for name, each in results.items() if name != "samples"}

    with patch.object(lm_eval, "simple_evaluate", evaluated), patch.object(sys, "argv", ["lm-eval", *arguments]):
        try:
            cli_evaluate()
        except ValueError as error:  # a task that there is not, arguments that contradict one another
            raise ParameterError(first_line(error), "lm-eval", "rbp lm-eval ls tasks lists the tasks.") from error
