"""A sample of what was ranked, asked again the plain way; every store says what this found.

One row at a time, on one thread, by a model that has read nothing before: its own forward pass, its own logits, counted
by comparison. None of what makes an extraction fast has a part in it: threads, batches, padding, tiles, compiled code.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rbp.core.errors import DataError
from rbp.ranks.forward import Ranks, one_thread_each
from rbp.ranks.kernel.problem import Rounding
from rbp.ranks.models import LanguageModel
from rbp.ranks.protocols import Row
from rbp.ranks.soundness import compared, find_head, fresh, shaken, target_slack, wide
from rbp.ranks.store import Asked

ROWS, SHARE = 8, 0.02  # what is asked again: so many rows, and so much of the tokens, at least
VALUES = 2**27  # logits that are held at once
SHAKES = 8  # how often a row is read again, moved by rounding, before a rank is called wrong


class Stored:
    """Ranks as they are stored: columns document, position, token, greater, equal and nll, in any order of tokens.

    where: what errors name.
    """

    def __init__(self, columns: dict[str, npt.NDArray[Any]], where: str) -> None:
        places = _places(columns["document"], columns["position"])
        order = np.argsort(places, kind="stable")
        self.places, self.where = places[order], where
        self.token, self.greater, self.equal, self.nll = (
            columns[c][order] for c in ("token", "greater", "equal", "nll")
        )

    def of(self, row: Row) -> Ranks:
        """The ranks of a row's scored tokens. Raises DataError if they are not there, or are other tokens'."""
        wanted = _places(np.full(len(row.scored), row.document), row.start + row.scored)
        at = np.searchsorted(self.places, wanted).clip(max=len(self.places) - 1)
        other = (self.places[at] != wanted) | (self.token[at] != row.ids[row.scored])
        if other.any():
            first = int(other.argmax())
            what = f"document {row.document}, position {row.start + int(row.scored[first])} is another token, or none"
            raise DataError(what, self.where, "Are text, tokenizer and protocol those that were ranked?")
        return Ranks(self.greater[at].astype(np.int64), self.equal[at].astype(np.int64), self.nll[at])


def _places(document: npt.NDArray[Any], position: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    places: npt.NDArray[np.int64] = (document.astype(np.int64) << 32) + position
    return places


@dataclass(frozen=True)
class Wrong:
    """A token whose stored rank is not that of the model's own logits."""

    row: Row
    index: int  # among the row's scored tokens
    stored: tuple[int, int, float]  # greater, equal, nll
    plain: tuple[int, int, float]

    def __str__(self) -> str:
        place = int(self.row.scored[self.index])
        (greater, equal, nll), (plain, ties, own) = self.stored, self.plain
        return (
            f"document {self.row.document}, position {self.row.start + place}, token {int(self.row.ids[place])}: rank "
            f"{greater + equal} (−ln p {nll:.4f}), and alone {plain + ties} ({own:.4f})"
        )


def drawn(rows: Sequence[Row], seed: str, least: int = ROWS, share: float = SHARE) -> list[int]:
    """The indices of the rows that are asked again: `least` (all, where there are fewer), with `share` of the tokens.

    Both are lower bounds. The rows are spread evenly over all lengths, by `seed`; the shortest and the longest are
    among them.
    """
    order = np.argsort([len(row.ids) for row in rows], kind="stable")
    tokens = np.array([len(row.scored) for row in rows])[order]
    begin = np.random.default_rng(list(seed.encode())).random()
    for count in range(min(least, len(rows)), len(rows)):
        spread = ((begin + np.arange(count)) * len(rows) / count).astype(int)
        places = np.union1d(spread, [0, len(rows) - 1])
        if tokens[places].sum() >= share * tokens.sum():
            return sorted(order[places].tolist())
    return list(range(len(rows)))


def ask(
    language: LanguageModel,
    rows: Iterable[Row],
    ranks: Stored,
    vocabulary: int | None = None,
    rounding: Rounding | None = None,
    *,
    cross_entropies: bool = True,
) -> Iterator[tuple[Asked, list[Wrong]]]:
    """Rank each of some rows again, and compare with what is stored.

    A token whose rank differs by more than rounding is asked for again with all that the model reads moved by as much
    as rounding: a model that chooses experts may leap from one to the other, and both are its own.

    vocabulary, rounding: as they were ranked; cross_entropies: whether these are compared too. Gives what was found of
    each row, and the tokens that differ by more than rounding. Raises DataError where the store holds other tokens.
    """
    for row in rows:
        stored = ranks.of(row)
        with torch.inference_mode(), one_thread_each():
            asked, wrong = _row(language, row, stored, vocabulary, rounding, cross_entropies)
            for seed in range(SHAKES if wrong else 0):
                _, other = _row(language, row, stored, vocabulary, rounding, cross_entropies, seed)
                still = {each.index for each in other}
                wrong = [each for each in wrong if each.index in still]
            yield asked, wrong


def _row(
    language: LanguageModel,
    row: Row,
    stored: Ranks,
    vocabulary: int | None,
    rounding: Rounding | None,
    cross_entropies: bool,
    shake: int | None = None,
) -> tuple[Asked, list[Wrong]]:
    head, dtype = find_head(language.model), rounding or language.dtype
    asked, wrong = Asked(rows=1), list[Wrong]()
    for part, given, hidden in _logits(language, row, shake):
        logits = given[:, :vocabulary]
        logits = wide(logits if rounding is None else logits.to(getattr(torch, rounding)))
        target = torch.from_numpy(row.ids[row.scored[part]]).to(logits.device)
        if head is not None:  # of a model in several places, it lies in one of them
            place = head.weight.device
            logits, target, hidden = logits.to(place), target.to(place), None if hidden is None else hidden.to(place)
        before = [torch.from_numpy(np.ascontiguousarray(column[part])).to(logits.device) for column in stored]
        if not cross_entropies:
            before[2] = logits.logsumexp(1) - logits.gather(1, target[:, None])[:, 0]
        found = compared(logits, target, (before[0], before[1], before[2]), dtype, hidden, head)
        for place in torch.nonzero(found.wrong)[:, 0].tolist():
            at = range(len(row.scored))[part][place]
            was = int(stored.greater[at]), int(stored.equal[at]), float(stored.nll[at])
            plain = int(found.greater[place]), int(found.equal[place]), float(found.nll[place])
            wrong.append(Wrong(row, at, was, plain))
        truth = logits.gather(1, target[:, None])[:, 0]
        asked += Asked(
            tokens=len(target),
            differ=int(found.other.sum()),
            largest=int(np.abs(found.greater - stored.greater[part]).max()),
            slack=float(target_slack(truth, target, dtype, hidden, head).max()),
            nll=float(found.apart.nan_to_num(0, 0, 0).max()),
        )
    return asked, wrong


def _logits(
    language: LanguageModel, row: Row, shake: int | None
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
    """A row's logits, by the model itself: slices of its scored tokens, [T, V], and what the output layer read.

    All in one go where they can be held, else a block of positions in a pass of its own, if the model can do that.
    """
    ids = torch.from_numpy(row.ids)[None].to(language.device)
    places = torch.from_numpy(row.scored - 1).to(language.device)
    blocks = "logits_to_keep" in inspect.signature(language.model.forward).parameters
    whole = len(row.ids) * language.vocabulary <= VALUES or not blocks
    step = len(places) if whole else max(1, VALUES // language.vocabulary)
    for start in range(0, len(places), step):
        model, seen = fresh(language.model), list[torch.Tensor]()
        if (layer := model.get_output_embeddings()) is not None:
            layer.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0]))
        wanted = places[start : start + step]
        with nullcontext() if shake is None else shaken(model, language.dtype, shake):
            logits = model(input_ids=ids, use_cache=False, **({} if whole else {"logits_to_keep": wanted})).logits[0]
        hidden = seen[0][0] if seen and seen[0].shape[:2] == (1, len(logits)) else None
        if whole:  # mostly all but the last: a slice, where indices would copy all logits
            first, last = int(wanted[0]), int(wanted[-1]) + 1
            chosen = slice(first, last) if last - first == len(wanted) else wanted
            logits, hidden = logits[chosen], None if hidden is None else hidden[chosen]
        yield slice(start, start + len(wanted)), logits, hidden


def verdict(wrong: Sequence[Wrong], asked: Asked, folder: str) -> DataError:
    """What is said where ranks differ by more than rounding."""
    what = (
        f"{len(wrong)} of {asked.tokens:,} tokens that were asked again have other ranks than the model's own logits "
        f"give, beyond rounding ({asked.slack:.2g}); the first: {wrong[0]}"
    )
    remedy = (
        "Do not use these ranks: remove the folder. The cause may be a processor or memory that fails, a kernel that "
        "was compiled for another machine, or a model that is not run rightly here: see whether it is so with "
        "--backend reference, OMP_NUM_THREADS=1 and --device cpu, and tell us."
    )
    return DataError(what, folder, remedy)


def missed(asked: int, tokens: int) -> float:
    """With which probability one wrong token among `tokens` is not among those that were asked again."""
    return 1 - asked / tokens
