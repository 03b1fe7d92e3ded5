"""RBP in lm-evaluation-harness (the extra `lm-eval`): its tasks and its command, answered by our ranks.

lm-eval 0.4.13 finds no models of other packages, so `run` registers ours and calls lm-eval's own command. The model is
its `hf` type with the model object that `rbp` loaded; only the scoring of tokens differs. No text is read twice.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from rbp.errors import DataError, ParameterError, install_extra
from rbp.extract.extraction import Settings, quiet
from rbp.extract.forward import Ranker, Ranks
from rbp.kernel import backend_for
from rbp.kernel.problem import ieee
from rbp.laws.resampling import document_sums, variance, without_each
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.texts.protocol import Row

TESTED = "0.4.13"
KS = (1, 10, 100)


class Answer(tuple[float, bool]):
    """What lm-eval wants of a request, (Σ ln p in nats, whether no other token has a higher logit), with its ranks."""

    ranks: Ranks

    def __new__(cls, ranks: Ranks) -> "Answer":
        """Sum the ranks of a request's tokens."""
        answer = super().__new__(cls, (-float(ranks.nll.sum(dtype=np.float64)), bool((ranks.greater == 0).all())))
        answer.ranks = ranks
        return answer


class Total(float):
    """Σ ln p (nats) of a text that is read in windows, with its ranks."""

    ranks: Ranks


def joined(parts: Sequence[Ranks]) -> Ranks:
    """Join the ranks of several requests."""
    return Ranks(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def model_class() -> type[Any]:
    """Return lm-eval's `hf` model with our loading and ranking, registered as `rbp`."""
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM

    @register_model("rbp")
    class RankLM(HFLM):  # type: ignore[misc]
        """`--model rbp --model_args pretrained=…`: a folder, a GGUF file, an adapter or a hub id."""

        def __init__(self, pretrained: str, dtype: str = "float32", device: str | None = None,
                     batch_size: int | str = 8, **options: Any) -> None:  # fmt: skip
            self.files = find_model(pretrained)
            place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            self.language = load_model(self.files, Settings(dtype=dtype).dtype, place)
            rows = int(batch_size) if str(batch_size).isdigit() else 8
            self.ranker = Ranker(self.language, backend_for(place, torch.float32), rows, compiled=False)
            self.checked = False
            model = self.language.model
            super().__init__(model, tokenizer=load_tokenizer(self.files), batch_size=rows, **options)

        def _loglikelihood_tokens(self, requests: Sequence[Any], **_: Any) -> list[Answer]:
            rows = []
            for i, (_, context, continuation) in enumerate(requests):
                ids = np.array((context + continuation)[-self.max_length :], dtype=np.int64)
                rows.append(Row(i, 0, ids, np.arange(len(ids) - len(continuation), len(ids))))
            with quiet(), ieee(self.language.device), torch.inference_mode():
                if not self.checked:
                    self.ranker.check(rows)
                    self.checked = True
                ranks = self.ranker.rank(rows)
            ends = np.cumsum([len(row.scored) for row in rows])[:-1]
            return [Answer(Ranks(*columns)) for columns in zip(*(np.split(c, ends) for c in ranks), strict=True)]

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[Total]:
            # one text at a time, so that its windows are known
            totals, score = [], self._loglikelihood_tokens
            for request in requests:
                parts: list[Ranks] = []

                def keep(requests: Sequence[Any], parts: list[Ranks] = parts, **options: Any) -> list[Answer]:
                    answers = score(requests, **options)
                    parts += [answer.ranks for answer in answers]
                    return answers

                self._loglikelihood_tokens = keep  # type: ignore[method-assign]
                try:
                    (total,) = super().loglikelihood_rolling([request], disable_tqdm=disable_tqdm)
                finally:
                    del self._loglikelihood_tokens
                kept = Total(total)
                kept.ranks = joined(parts)
                totals.append(kept)
            return totals

    return RankLM


def ranks_of(sample: dict[str, Any]) -> Ranks | None:
    """Find the ranks of a sample's correct answer; None where it is not known which, or no token was scored.

    One request: its ranks. Several, the choices of a question: those of the correct choice.
    """
    responses = [response[0] for response in sample["resps"]]
    place = 0
    if len(responses) > 1:
        target = sample["target"]
        texts = [arguments[-1].strip() for arguments in sample["arguments"]]
        if isinstance(target, int) and 0 <= target < len(responses):
            place = target
        elif isinstance(target, str) and texts.count(target.strip()) == 1:
            place = texts.index(target.strip())
        else:
            return None
    answer = responses[place]
    return answer.ranks if isinstance(answer, Answer | Total) else None


def summarize(samples: Sequence[dict[str, Any]], ks: Sequence[int] = KS) -> dict[str, float]:
    """Compute RBP_k, cross-entropy (nats a token), tokens and tied tokens of a task, as lm-eval names metrics.

    Each sample counts once, whatever filters its answers pass. Standard errors leave out a sample at a time.
    """
    first = {sample["doc_id"]: sample for sample in reversed(samples)}
    found = {document: ranks_of(sample) for document, sample in first.items()}
    scored = {document: ranks for document, ranks in found.items() if ranks is not None and len(ranks.nll)}
    if not scored:
        return {}
    every = joined(list(scored.values()))
    rank = every.greater + every.equal
    columns = [np.ones(len(rank)), every.nll, *(rank <= k for k in ks)]
    documents = np.repeat(np.arange(len(scored)), [len(ranks.nll) for ranks in scored.values()])
    sums = without_each(document_sums(np.column_stack(columns), documents))
    metrics: dict[str, float] = {}
    for name, column in zip(("cross_entropy", *(f"rbp_{k}" for k in ks)), sums[:, 1:].T, strict=True):
        values = column / sums[:, 0]
        metrics[f"{name},none"] = float(values[0])
        metrics[f"{name}_stderr,none"] = float(np.sqrt(variance(values))) if len(scored) > 1 else float("nan")
    metrics |= {"rbp_tokens,none": len(rank), "rbp_tied_tokens,none": int((every.equal > 1).sum())}
    return metrics | ({"rbp_not_counted,none": len(found) - len(scored)} if len(found) > len(scored) else {})


def with_ranks(evaluate: Callable[..., Any], ks: Sequence[int]) -> Callable[..., Any]:
    """Wrap lm-eval's `simple_evaluate` so that each task's results have our metrics too."""

    def evaluated(*arguments: Any, log_samples: bool = True, **options: Any) -> Any:
        results = evaluate(*arguments, log_samples=True, **options)
        if results is not None:
            for task, samples in results["samples"].items():
                results["results"][task] |= summarize(samples, ks)
            if not log_samples:
                del results["samples"]
        return results

    return evaluated


def run(arguments: Sequence[str], ks: Sequence[int] = KS) -> None:
    """Run lm-eval's own command with these arguments, with the model type `rbp`. Raises DataError without lm-eval."""
    try:
        installed = version("lm_eval")
    except PackageNotFoundError:
        raise DataError("lm-eval is not installed", "rbp lm-eval", install_extra("lm-eval")) from None
    if installed != TESTED:
        remedy = f"pip install lm-eval=={TESTED}"
        raise DataError(f"lm-eval {installed} is not what this was tested with", "rbp lm-eval", remedy)
    if "--use_cache" in arguments:
        raise ParameterError("answers from a cache have no ranks", "--use_cache", "Leave it out.")
    import lm_eval
    from lm_eval.__main__ import cli_evaluate

    model_class()
    lm_eval.simple_evaluate = with_ranks(lm_eval.simple_evaluate, ks)
    sys.argv = ["lm-eval", *arguments]
    cli_evaluate()
