"""Recover how many tokens are behind a published share, which is hits/N, both whole numbers.

If N is right, every published share times N is a whole number up to the reading error; if N is wrong, the
products' distances to the nearest whole number are spread evenly. Models of one family share a tokenizer and
so share N on a dataset: their thresholds are combined, and one N is usually likelier by a factor e^50.
"""

import math
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from rbp.arrays import Reals
from rbp.errors import DataError, ParameterError

# The authors' protocol (repository): at most 512 tokens of a document, of which the first is not predicted.
SCORED_PER_DOCUMENT = 511
DOCUMENTS = {"wikipedia": 1000, "auslegal": 1000, "hotpotqa": 1000, "humaneval": 164}

# Relative standard deviation of a reading of figures 3, 4 and 9, as the counts that it gives confirm.
READING_ERROR = 3e-6

_CHUNK = 16_384  # candidates at a time: what they need fits a processor's cache
_FOREMOST = 35.0  # of the log-likelihood: what lies farther below the highest adds less than 1e-15 to it
_STRAY = 0.01  # share of readings that may be off by any amount
_FALSE_ALARM = 0.001  # the largest probability that `identified` is true of numbers that are no shares


@dataclass(frozen=True)
class Recovery:
    """The result of `recover_total`.

    tokens: the most likely N.
    log_likelihood: of N, against products spread evenly (0 = no better).
    posterior: probability of N among all candidates, multiples included, all being as likely before.
    readings: how many shares were used.
    identified: whether to believe it, by the rule of `recover_total`.
    """

    tokens: int
    log_likelihood: float
    posterior: float
    readings: int
    identified: bool


def protocol_bound(dataset: str) -> int:
    """Return the most tokens that the authors' protocol can have ranked on `dataset`: documents × 511.

    HumanEval has 164 problems, so at most 83 804. Raises ParameterError for a dataset without points.
    """
    if dataset not in DOCUMENTS:
        raise ParameterError(f"no protocol for {dataset!r}", "dataset", f"There is: {', '.join(DOCUMENTS)}.")
    return DOCUMENTS[dataset] * SCORED_PER_DOCUMENT


def recover_total(share: npt.ArrayLike, error: npt.ArrayLike, candidates: npt.ArrayLike) -> Recovery:
    """Find the total N of which each share is a whole-number part, each known to a standard deviation `error`.

    The distance of N·share to the nearest whole number has the density of a wrapped normal of standard deviation
    N·error, with weight 0.99; the rest lets a stray reading pass. `identified` asks that the log-likelihood reach
    ln(number of candidates/0.001), which some candidate does by chance with probability 0.001 at most (Markov), and
    that the posterior of N reach 0.999.

    Raises DataError for no shares, or one outside 0 … 1; ParameterError unless errors are above 0 and candidates two or
    more whole numbers of at least 1.
    """
    part, sd = np.broadcast_arrays(np.asarray(share, dtype=np.float64), np.asarray(error, dtype=np.float64))
    ordered = np.sort(np.asarray(candidates))  # np.unique hashes, which takes as long as all that follows
    total = ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]
    if not part.size or not ((part >= 0) & (part <= 1)).all():
        raise DataError("shares must lie between 0 and 1, at least one of them", "share", "Check them.")
    if not (sd > 0).all():
        raise ParameterError("a reading error must be above 0", "error", "Give the reading precision.")
    if total.size < 2 or not np.issubdtype(total.dtype, np.integer) or total[0] < 1:
        raise ParameterError("candidates must be two or more whole numbers of at least 1", "candidates", None)
    key = sha256(b"".join(array.tobytes() for array in (part, sd, total))).digest()
    if key not in _KNOWN:
        _KNOWN[key] = _most_likely(total, part, sd)
    return _KNOWN[key]


_KNOWN: dict[bytes, Recovery] = {}  # by what was asked: several tables ask for the same totals


def _most_likely(total: npt.NDArray[np.int_], part: Reals, sd: Reals) -> Recovery:
    score = np.zeros(total.size)
    for start in range(0, total.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        score[chunk] = _log_likelihood(total[chunk], part, sd, np.float32)
    foremost = score > score.max() - _FOREMOST  # the others are too many to be done again, and too unlikely to matter
    score[foremost] = _log_likelihood(total[foremost], part, sd, np.float64)
    best = int(score.argmax())
    tokens = int(total[best])
    posterior = float(1 / np.exp(score - score[best]).sum())
    return Recovery(
        tokens=tokens,
        log_likelihood=float(score[best]),
        posterior=posterior,
        readings=part.size,
        identified=bool(score[best] >= np.log(total.size / _FALSE_ALARM) and posterior >= 1 - _FALSE_ALARM),
    )


def _log_likelihood(total: npt.NDArray[np.int_], part: Reals, sd: Reals, precision: type[np.floating[Any]]) -> Reals:
    """Score the candidates `total`, ascending; single precision is several times as fast, and good to 1e-5."""
    number, score = total.astype(np.float64), np.zeros(total.size)
    for share, spread in zip(part.ravel(), sd.ravel(), strict=True):
        density = _wrapped_normal(number * share, number * spread, precision)
        density *= 1 - _STRAY
        density += _STRAY
        score += np.log(density, out=density)
    return score


def _wrapped_normal(position: Reals, sd: Reals, precision: type[np.floating[Any]] = np.float64) -> npt.NDArray[Any]:
    """Compute the density at `position` of a normal about the whole numbers, on the circle of length 1; `sd` ascends.

    It is worked out in place, which takes a fifth less: most of a recovery's time is spent here.
    """
    density, spread = np.subtract(position, np.rint(position)).astype(precision), sd.astype(precision)
    split = int(np.searchsorted(sd, 0.2))  # below it the nearest whole number alone counts
    near, width = density[:split], spread[:split]
    near /= width
    np.square(near, out=near)
    near *= -0.5
    np.exp(near, out=near)
    near /= width * math.sqrt(2 * math.pi)
    far, damping = density[split:], np.exp(-2 * np.square(math.pi * spread[split:]))
    far *= 2 * math.pi
    np.cos(far, out=far)
    second = (2 * np.square(far) - 1) * np.square(np.square(damping))
    far *= damping
    far += second
    far *= 2
    far += 1
    return density
