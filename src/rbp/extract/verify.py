"""Rank a sample of what was ranked again, the plain way; every store records the result.

The plain way is the forward pass of the model as it was given or loaded, with its own logits, counted by comparison. It
has no batches, padding, tiles, compiled code or product of the output layer, and no copies, unless the model keeps
something of what it reads. It cannot see a wrong tokenizer, an ignored field or file, or a model that is wrong in
itself: both ways read the same tokens by the same weights.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from rbp.errors import DataError
from rbp.extract.forward import Ranker, one_thread_each, rank_logits
from rbp.models.head import tolerance, wide
from rbp.store import SampleCheck
from rbp.texts.protocol import Row

ROWS, SHARE = 2, 0.02  # what is ranked again: so many rows, and so much of the tokens, at least
VALUES = 2**27  # logits of a row that are held at once
WIDENED, WIDENED_CPU = 2**25, 2**21  # logits counted at once, with a copy in float64: a CPU waits for memory alone
PERTURBATIONS = 8  # how often a row is read again, moved by rounding, before a rank is called wrong


class Logits(NamedTuple):
    """The logits [T, V] before some scored tokens of a row, and what rounding may move each of them by.

    part: [T], which of the row's scored tokens; near: gives the latter for n of them, [n, V].
    """

    part: npt.NDArray[np.int64]
    logits: torch.Tensor
    near: Callable[[torch.Tensor], torch.Tensor]


Forward = Callable[[Row, int | None], Iterator[Logits]]


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

    def of(self, row: Row) -> tuple[npt.NDArray[Any], ...]:
        """Return greater, equal and nll of a row's scored tokens.

        Raises DataError if they are missing, or are other tokens'.
        """
        wanted = _places(np.full(len(row.scored), row.document), row.start + row.scored)
        indices = np.searchsorted(self.places, wanted).clip(max=len(self.places) - 1)
        other = (self.places[indices] != wanted) | (self.token[indices] != row.ids[row.scored])
        if other.any():
            first = int(other.argmax())
            fault = f"document {row.document}, position {row.start + int(row.scored[first])} is another token, or none"
            raise DataError(fault, self.where, "Are text, tokenizer and protocol those that were ranked?")
        return self.greater[indices].astype(np.int64), self.equal[indices].astype(np.int64), self.nll[indices]


def _places(document: npt.NDArray[Any], position: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    places: npt.NDArray[np.int64] = (document.astype(np.int64) << 32) + position
    return places


@dataclass(frozen=True)
class WrongRank:
    """A token whose stored rank differs from the rank by the model's own logits."""

    row: Row
    index: int  # among the row's scored tokens
    stored: tuple[int, int, float]  # greater, equal, nll
    plain: tuple[int, int, float]

    def __str__(self) -> str:
        place = int(self.row.scored[self.index])
        (greater, equal, nll), (plain, ties, plain_nll) = self.stored, self.plain
        return (
            f"document {self.row.document}, position {self.row.start + place}, token {int(self.row.ids[place])}: rank "
            f"{greater + equal} (−ln p {nll:.4f}), and alone {plain + ties} ({plain_nll:.4f})"
        )


def choose_sample(rows: Sequence[Row], seed: str, share: float = SHARE, least: int = ROWS) -> list[int]:
    """Choose the indices of rows to verify: at least `least` (all, where there are fewer), with `share` of the tokens.

    They are spread evenly over all lengths, by `seed`; a row of the smallest and one of the greatest length are among
    them.
    """
    draw = np.random.default_rng(list(seed.encode()))
    order = np.lexsort((draw.random(len(rows)), np.array([len(row.ids) for row in rows])))
    tokens, begin = np.array([len(row.scored) for row in rows])[order], draw.random()
    count = max(least, int(share * len(rows)))
    while count < len(rows):
        spread = 1 + ((begin + np.arange(count - 2)) * (len(rows) - 2) / max(1, count - 2)).astype(int)
        places = np.union1d(spread, [0, len(rows) - 1])
        if tokens[places].sum() >= share * tokens.sum():
            return sorted(order[places].tolist())
        count += 1 + count // 8
    return list(range(len(rows)))


def plain_logits(ranker: Ranker, *, apart: bool) -> Forward:
    """Make the function that gives the model's own logits of a row by itself, for `verify_sample`.

    apart: whether the ranks come from other hidden states than these: of another batch, kernel or machine.
    """
    reader, language, head = ranker.probe.reader(ranker.language), ranker.language, ranker.head
    dtype = getattr(torch, language.dtype)
    rounding = None if ranker.rounding is None else getattr(torch, ranker.rounding)
    keeps_some = "logits_to_keep" in inspect.signature(language.model.forward).parameters

    def near(part: torch.Tensor, states: torch.Tensor | None, chosen: torch.Tensor) -> torch.Tensor:
        return tolerance(part[chosen], rounding or dtype, None if states is None else states[chosen], head, apart=apart)

    def forward(row: Row, perturbation: int | None) -> Iterator[Logits]:
        ids, places = torch.from_numpy(row.ids)[None].to(language.device), torch.from_numpy(row.scored - 1)
        all_at_once = len(row.ids) * language.vocabulary <= VALUES or not keeps_some
        step = len(places) if all_at_once else max(1, VALUES // language.vocabulary)
        for start in range(0, len(places), step):
            wanted = places[start : start + step].to(language.device)
            logits, read = reader.logits(ids, None if all_at_once else wanted, perturbation)
            indices = wanted if all_at_once else torch.arange(len(wanted), device=language.device)
            place = logits.device if head is None else head.weight.device  # of a model in several places
            logits, hidden = logits[0].to(place)[:, : ranker.vocabulary], None if read is None else read[0].to(place)
            widened = WIDENED_CPU if place.type == "cpu" else WIDENED
            for some in torch.split(torch.arange(len(indices)), max(1, widened // language.vocabulary)):
                chosen = indices[some].to(place)
                part = logits[chosen] if rounding is None else logits[chosen].to(rounding)
                states = None if hidden is None else hidden[chosen]
                yield Logits(start + some.numpy(), part, partial(near, part, states))

    return forward


def verify_sample(
    forward: Forward, rows: Sequence[Row], stored: Stored, *, threads: bool = True, cross_entropies: bool = True
) -> Iterator[tuple[SampleCheck, list[WrongRank]]]:
    """Rank each of some rows again, and compare with what is stored.

    A token whose rank differs by more than rounding is ranked again with all that the model reads moved by as much as
    rounding: a model that chooses experts may leap from one to the other, and both are its own.

    forward: gives a row's own logits (`plain_logits`); threads: whether rows may be read side by side, each on one
    thread, which changes no bit; cross_entropies: whether these are compared too. Gives what was found of each row, and
    the tokens that differ by more than rounding. Raises DataError where the store holds other tokens.
    """
    before = [stored.of(row) for row in rows]

    def verify(index: int) -> tuple[SampleCheck, list[WrongRank]]:
        sampled, wrong = _verified(forward(rows[index], None), rows[index], before[index], cross_entropies)
        for seed in range(PERTURBATIONS if wrong else 0):
            _, other = _verified(forward(rows[index], seed), rows[index], before[index], cross_entropies)
            still = {token.index for token in other}
            wrong = [token for token in wrong if token.index in still]
        return sampled, wrong

    if not threads:
        yield from map(verify, range(len(rows)))
        return
    with one_thread_each() as count, ThreadPoolExecutor(count) as pool:
        yield from pool.map(verify, range(len(rows)))


def _verified(
    parts: Iterable[Logits], row: Row, stored: Sequence[npt.NDArray[Any]], cross_entropies: bool
) -> tuple[SampleCheck, list[WrongRank]]:
    sampled, wrong = SampleCheck(rows=1), list[WrongRank]()
    for part in parts:
        check, others = _compared(part, row, stored, cross_entropies)
        sampled += check
        wrong += others
    return sampled, wrong


def _compared(
    own: Logits, row: Row, stored: Sequence[npt.NDArray[Any]], cross_entropies: bool
) -> tuple[SampleCheck, list[WrongRank]]:
    """Compare a row's stored ranks with counts among some logits; list those whose difference rounding cannot explain.

    Counts must lie between those with every logit that is near counted, and with none. A cross-entropy must be as near:
    a wrong scale or cap keeps the order, but not the cross-entropy.
    """
    part, logits, near = own
    target = torch.from_numpy(row.ids[row.scored[part]]).to(logits.device)
    plain = rank_logits(logits, target)
    greater, equal, nll = before = [torch.from_numpy(column[part]).to(logits.device) for column in stored]
    other = (plain.greater != greater) | (plain.equal != equal)
    apart = torch.where(plain.nll == nll, 0.0, (plain.nll - nll).abs()) if cross_entropies else torch.zeros_like(nll)
    # most are the same, or as near as sums of exponentials come: rounding is looked at for the rest alone
    unequal = torch.nonzero(other | ~(apart <= 3e-5 * (1 + plain.nll.abs())))[:, 0]
    values = wide(logits[unequal])
    moved = near(unequal).to(values.dtype)
    truth, truth_moved = (tensor.gather(1, target[unequal, None]) for tensor in (values, moved))
    least, most = (values - moved > truth + truth_moved).sum(1), (values + moved >= truth - truth_moved).sum(1)
    mean = truth_moved[:, 0] + (values.softmax(1) * moved).sum(1) + 3e-5 * (1 + plain.nll[unequal].abs())
    right = (least <= greater[unequal]) & (greater[unequal] + equal[unequal] <= most) & (apart[unequal] <= mean)
    sampled = SampleCheck(
        tokens=len(target),
        differ=int(other.sum()),
        largest=int((plain.greater - greater).abs().max()),
        slack=float(truth_moved.max()) if len(truth_moved) else 0.0,
        nll=float(apart.nan_to_num(0, 0, 0).max()),
    )
    wrong = unequal[~right]
    places = part[wrong.cpu().numpy()].tolist()
    after = [plain.greater, plain.equal, plain.nll]
    was, now = (zip(*(column[wrong].tolist() for column in ranks), strict=True) for ranks in (before, after))
    return sampled, list(map(WrongRank, repeat(row), places, was, now))


def wrong_ranks_error(wrong: Sequence[WrongRank], sampled: SampleCheck, folder: str) -> DataError:
    """Build the error for ranks that differ by more than rounding."""
    fault = (
        f"{len(wrong)} of {sampled.tokens:,} tokens that were ranked again have other ranks by the model's own logits "
        f"give, beyond rounding ({sampled.slack:.2g}); the first: {wrong[0]}"
    )
    remedy = (
        "Do not use these ranks: remove the folder. The cause may be a processor or memory that fails, a kernel that "
        "was compiled for another machine, or a model that is not run rightly here: see whether it is so with "
        "--backend reference, OMP_NUM_THREADS=1 and --device cpu, and tell us."
    )
    return DataError(fault, folder, remedy)
