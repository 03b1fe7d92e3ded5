"""The arguments of a ranking, checked once, so that no backend needs to check again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Any, NamedTuple

import torch

from rbp.choices import Rounding
from rbp.errors import ParameterError, RankError
from rbp.kernel.names import EqualRows, equal_rows

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class Problem:
    """The arguments of `linear_rank`, checked: weight and bias hold the `vocab` rows that count, and no more.

    target: [T], within 0 … vocab − 1 whatever was given (`given_target`): `judged` tells, so that a GPU can go to work
    before anybody has waited for it.
    """

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    given_target: torch.Tensor
    bias: torch.Tensor | None
    scale: float
    softcap: float | None
    rounding: Rounding | None
    dtype: torch.dtype  # of the sums, the logits and their comparison
    names: torch.Tensor  # [V] int32, see EqualRows

    def finish(self, logits: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Turn bare products into logits, in place; bias: one value per column, or None.

        Always called on whole tiles of one shape: a vector unit may treat the end of an odd-sized array by
        another formula, and then a logit's last bit would depend on how the work is cut.
        """
        if bias is not None:
            logits.add_(bias)
        if self.scale != 1.0:
            logits.mul_(self.scale)
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        if self.rounding is not None:
            logits.copy_(logits.to(torch.bfloat16))
        return logits


def problem(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    vocab: int | None,
    rounding: Rounding | None,
    equal: EqualRows | None = None,
) -> Problem:
    """Check the arguments of `linear_rank` (their meaning is given there), but for the targets' values.

    Raises ParameterError.
    """
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1] or 0 in weight.shape:
        fault = f"hidden {tuple(hidden.shape)} and weight {tuple(weight.shape)} do not fit together"
        raise ParameterError(fault, "hidden, weight", "Give [T, d] and [V, d], with V and d of at least 1.")
    if target.shape != hidden.shape[:1] or target.dtype not in (torch.int64, torch.int32):
        fault = f"{hidden.shape[0]} rows need as many whole-number targets, not {target.dtype} {tuple(target.shape)}"
        raise ParameterError(fault, "target", "Give one token id per row, as int64.")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ParameterError(f"a bias of shape {tuple(bias.shape)}", "bias", f"Give {weight.shape[0]} values.")
    tensors = [hidden, weight] if bias is None else [hidden, weight, bias]
    if any(tensor.dtype not in FLOATS for tensor in tensors):
        fault = f"cannot rank {', '.join(str(tensor.dtype) for tensor in tensors)}"
        raise ParameterError(fault, "hidden, weight, bias", f"There is: {', '.join(str(f) for f in FLOATS)}.")
    devices = {str(tensor.device) for tensor in (*tensors, target)}
    if len(devices) > 1:
        raise ParameterError(f"tensors lie on {', '.join(sorted(devices))}", "device", "Move them to one device.")
    if hidden.device.type == "mps":
        fault = "an Apple GPU has no float64, in which exponentials are summed"
        raise ParameterError(fault, "device", "Rank on the CPU: --device cpu.")
    if not (isfinite(scale) and scale > 0) or not (softcap is None or (isfinite(softcap) and softcap > 0)):
        raise ParameterError(f"scale {scale} and softcap {softcap} must be positive", "scale, softcap", "Check them.")
    if rounding not in (None, "bfloat16"):
        raise ParameterError(f"cannot round logits to {rounding!r}", "round_logits", 'Give None or "bfloat16".')
    rows = weight.shape[0] if vocab is None else vocab
    if not 1 <= rows <= weight.shape[0]:
        raise ParameterError(f"vocab is {vocab}, weight has {weight.shape[0]} rows", "vocab", "Give at most that.")
    equal = equal or equal_rows(weight, bias, rows)
    if equal.names.shape != (rows,) or equal.names.device != weight.device:
        fault = f"equal rows of {len(equal.names)} on {equal.names.device}, and {rows} rows on {weight.device}"
        raise ParameterError(fault, "equal", "Give those of this weight: equal_rows(weight, bias, vocab).")
    within = target.long().clamp(0, rows - 1)
    wide = any(tensor.dtype == torch.float64 for tensor in tensors)
    return Problem(
        hidden=hidden.detach(),
        weight=weight.detach()[:rows],
        target=within,
        given_target=target,
        bias=None if bias is None else bias.detach()[:rows],
        scale=scale,
        softcap=softcap,
        rounding=rounding,
        dtype=torch.float64 if wide else torch.float32,
        names=equal.names,
    )


_torch: Any = torch.backends
_switches = (  # the general ones first: a switch that nobody has set follows them
    *(_torch, _torch.cudnn),  # mkldnn's general one reads the first, and writes it too
    *(_torch.cuda.matmul, _torch.cudnn.conv, _torch.cudnn.rnn),
    *(_torch.mkldnn.matmul, _torch.mkldnn.conv, _torch.mkldnn.rnn),
)
_short = [f"allow_{kind}_reduced_precision_reduction" for kind in ("bf16", "fp16")]
_settings: list[tuple[Any, str, Any]] = [(switch, "fp32_precision", "ieee") for switch in _switches]
_settings += [(_torch.cuda.matmul, name, False) for name in _short]
_lock, _inside = Lock(), 0  # threads may rank side by side, the settings are for all
_before: list[tuple[Any, str, Any]] = []


@contextmanager
def ieee(device: torch.device) -> Iterator[None]:
    """Sum in IEEE float32: no TF32, no bfloat16 passes, no short partial sums, no autocast; restored afterwards."""
    global _inside
    with _lock:
        if not _inside:
            for switch, name, wanted in _settings:
                value = getattr(switch, name)
                if value != wanted:  # those that follow stay unset, as no value means that
                    _before.append((switch, name, value))
                    setattr(switch, name, wanted)
        _inside += 1
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        with _lock:
            _inside -= 1
            while not _inside and _before:
                setattr(*_before.pop())


class Tally(NamedTuple):
    """The logits z of each row, reduced: every field has shape [T].

    greater, equal: counts against the target's logit (integers); truth: the target's logit; total: Σ exp(z − base)
    in float64, NaN if a logit is NaN and +inf if, and only if, one is +inf; base: a finite number for that, the
    target's logit or the highest one; top: the token with the highest logit (int64), the lowest id where several have.
    """

    greater: torch.Tensor
    equal: torch.Tensor
    truth: torch.Tensor
    base: torch.Tensor
    total: torch.Tensor
    top: torch.Tensor

    def impossible(self, vocab: int) -> torch.Tensor:
        """Return [T], which of these cannot be counts among `vocab` logits, rows with NaN aside."""
        counted = (self.greater >= 0) & (self.equal >= 1) & (self.greater + self.equal <= vocab)
        counted &= (self.top >= 0) & (self.top < vocab)
        return ~(counted | self.total.isnan())

    def ranks(self, dtype: torch.dtype) -> "TokenRanks":
        """Compute ranks, and cross-entropies in `dtype`."""
        nll = (self.base.double() - self.truth.double()) + self.total.log()
        nll = nll.clamp(min=0)  # the target's own term may be rounded otherwise than its logit
        infinite = (self.total == torch.inf) | (self.truth == torch.inf)
        nll = nll.masked_fill(self.truth == -torch.inf, torch.inf).masked_fill(infinite, torch.nan)
        return TokenRanks(self.greater.long(), self.equal.long(), nll.to(dtype), self.top.long())


class Verdict(NamedTuple):
    """What may be wrong with a tally: targets outside the vocabulary, counts, NaN."""

    outside: bool
    impossible: bool
    nan: bool


def judged(problem: Problem, tally: Tally) -> Verdict:
    """Check all that may be wrong at once: each look makes a program wait for its GPU."""
    outside, impossible = problem.given_target != problem.target, tally.impossible(problem.weight.shape[0])
    return Verdict(*torch.stack([outside, impossible, tally.total.isnan()]).any(1).tolist())


@dataclass(frozen=True)
class TokenRanks:
    """Where each of T ground-truth tokens stands among all logits of its row.

    greater: [T] int64, how many logits are strictly higher than the target's. equal: [T] int64, how many equal
    it, itself included: 1 ≤ equal and greater + equal ≤ V. nll: [T] float32, the cross-entropy
    −ln softmax(z)[target] in nats (float64 where the logits are). top: [T] int64, the token of rank 1, whose logit is
    the highest; of several, the one with the lowest id.
    """

    greater: torch.Tensor
    equal: torch.Tensor
    _nll: torch.Tensor
    top: torch.Tensor

    @property
    def nll(self) -> torch.Tensor:
        """Return the cross-entropies, [T], nats. Raises RankError naming the first row that has a logit of +inf."""
        undefined = torch.isnan(self._nll)
        if undefined.any():
            fault = "a logit is +inf, so no probability can be taken"
            raise RankError(fault, first(undefined), "The ranks stand; float32 or a smaller scale avoids it.")
        return self._nll


def finish_ranks(problem: Problem, tally: Tally, verdict: Verdict | None = None) -> TokenRanks:
    """Compute ranks and cross-entropies from a tally.

    Raises ParameterError for a target outside the vocabulary, and RankError for a row with NaN.
    """
    verdict = verdict or judged(problem, tally)
    if verdict.outside:
        row = first(problem.given_target != problem.target)
        fault = f"the target {int(problem.given_target[row])} lies outside 0 … {problem.weight.shape[0] - 1}"
        raise ParameterError(fault, f"target, row {row}", "Check the tokenizer, and vocab.")
    if verdict.nan:
        row = first(torch.isnan(tally.total))
        if problem.hidden[row].isnan().any():
            fault = "the hidden state holds NaN"
        elif problem.weight.isnan().any() or (problem.bias is not None and problem.bias.isnan().any()):
            fault = "a logit is NaN, as the output embedding holds NaN"
        else:
            fault = "a logit is NaN, from infinite values or an overflow"
        raise RankError(fault, row, "NaN cannot be ordered: check the weights and the model's dtype.")
    return tally.ranks(problem.dtype)


def finite(values: torch.Tensor) -> torch.Tensor:
    """Return the values, with 0 for the infinite ones: what exponents can be taken against."""
    return torch.where(values.isinf(), 0.0, values)


def first(mask: torch.Tensor) -> int:
    """Return the index of the first True."""
    return int(mask.int().argmax())
