"""What a ranking is asked for: checked once, so that no backend needs to check again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Any, Literal, NamedTuple

import torch

from rbp.core.errors import ParameterError, RankError

Rounding = Literal["bfloat16"]

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
PIECE = 2**22  # values that are looked at together


@dataclass(frozen=True)
class Problem:
    """The arguments of `linear_rank`, checked: weight and bias hold the `vocab` rows that count, and no more."""

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    bias: torch.Tensor | None
    scale: float
    softcap: float | None
    rounding: Rounding | None
    dtype: torch.dtype  # of the sums, the logits and their comparison

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

    def names(self) -> torch.Tensor:
        """[vocab] int32: for each column, the first one that has the same row of weight, and bias, bit for bit.

        Columns of one name have one logit, in any exact reckoning; a product may still round it in two ways, as
        some round the edges of a block otherwise. Backends let the target's logit stand for all of its name.
        """
        columns = torch.arange(self.weight.shape[0], device=self.weight.device)
        names = columns.int()
        some = columns[_shared(self._digests(slice(None), 4))]  # most rows differ in their first values
        some = some[_shared(self._digests(some, 32))]
        while len(some):  # once, unless digests of rows that differ are the same
            _, group = torch.unique(self._digests(some, self.weight.shape[1]), return_inverse=True)
            first = torch.full_like(some, len(columns)).scatter_reduce(0, group, some, "amin")[group]
            same = self._same(some, first)
            names[some[same]] = first[same].int()
            some = some[~same]
        return names

    def _digests(self, columns: torch.Tensor | slice, width: int) -> torch.Tensor:
        """A number for each column, from the bits of the first `width` values of its row, and of its bias."""
        bits = _bits(self.weight[:, :width])
        factors = torch.randint(-(2**62), 2**62, (bits.shape[1] + 1,), generator=torch.Generator().manual_seed(0))
        factors = factors.to(bits.device) | 1
        parts = [columns] if isinstance(columns, slice) else torch.split(columns, max(1, PIECE // width))
        digests = torch.cat([(bits[part] * factors[1:]).sum(1) for part in parts])
        return digests if self.bias is None else digests + _bits(self.bias)[columns] * factors[0]

    def _same(self, ones: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Whether the rows of weight, and the biases, of pairs of columns are the same bits."""
        bits, size = _bits(self.weight), max(1, PIECE // self.weight.shape[1])
        pairs = zip(torch.split(ones, size), torch.split(others, size), strict=True)
        same = torch.cat([(bits[one] == bits[other]).all(1) for one, other in pairs])
        return same if self.bias is None else same & (_bits(self.bias)[ones] == _bits(self.bias)[others])


def problem(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    vocab: int | None,
    rounding: Rounding | None,
) -> Problem:
    """Check the arguments of `linear_rank` (their meaning is given there). Raises ParameterError."""
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1] or 0 in weight.shape:
        what = f"hidden {tuple(hidden.shape)} and weight {tuple(weight.shape)} do not fit together"
        raise ParameterError(what, "hidden, weight", "Give [T, d] and [V, d], with V and d of at least 1.")
    if target.shape != hidden.shape[:1] or target.dtype not in (torch.int64, torch.int32):
        what = f"{hidden.shape[0]} rows need as many whole-number targets, not {target.dtype} {tuple(target.shape)}"
        raise ParameterError(what, "target", "Give one token id per row, as int64.")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ParameterError(f"a bias of shape {tuple(bias.shape)}", "bias", f"Give {weight.shape[0]} values.")
    given = [hidden, weight] if bias is None else [hidden, weight, bias]
    if any(tensor.dtype not in FLOATS for tensor in given):
        what = f"cannot rank {', '.join(str(tensor.dtype) for tensor in given)}"
        raise ParameterError(what, "hidden, weight, bias", f"There is: {', '.join(str(f) for f in FLOATS)}.")
    devices = {str(tensor.device) for tensor in (*given, target)}
    if len(devices) > 1:
        raise ParameterError(f"tensors lie on {', '.join(sorted(devices))}", "device", "Move them to one device.")
    if not (isfinite(scale) and scale > 0) or not (softcap is None or (isfinite(softcap) and softcap > 0)):
        raise ParameterError(f"scale {scale} and softcap {softcap} must be positive", "scale, softcap", "Check them.")
    if rounding not in (None, "bfloat16"):
        raise ParameterError(f"cannot round logits to {rounding!r}", "round_logits", 'Give None or "bfloat16".')
    rows = weight.shape[0] if vocab is None else vocab
    if not 1 <= rows <= weight.shape[0]:
        raise ParameterError(f"vocab is {vocab}, weight has {weight.shape[0]} rows", "vocab", "Give at most that.")
    outside = (target < 0) | (target >= rows)
    if outside.any():
        row = int(outside.int().argmax())
        what = f"the target {int(target[row])} lies outside 0 … {rows - 1}"
        raise ParameterError(what, f"target, row {row}", "Check the tokenizer, and vocab.")
    wide = any(tensor.dtype == torch.float64 for tensor in given)
    return Problem(
        hidden=hidden.detach(),
        weight=weight.detach()[:rows],
        target=target.long(),
        bias=None if bias is None else bias.detach()[:rows],
        scale=scale,
        softcap=softcap,
        rounding=rounding,
        dtype=torch.float64 if wide else torch.float32,
    )


def _bits(values: torch.Tensor) -> torch.Tensor:
    """The values' bits, as whole numbers."""
    return values.view(BITS[values.dtype.itemsize])


def _shared(numbers: torch.Tensor) -> torch.Tensor:
    """Whether each number occurs more than once."""
    _, group, count = torch.unique(numbers, return_inverse=True, return_counts=True)
    shared: torch.Tensor = count[group] > 1
    return shared


_torch: Any = torch.backends
_switches = (  # the general ones first: a switch that nobody has set follows them
    *(_torch, _torch.cudnn),  # mkldnn's general one reads the first, and writes it too
    *(_torch.cuda.matmul, _torch.cudnn.conv, _torch.cudnn.rnn),
    *(_torch.mkldnn.matmul, _torch.mkldnn.conv, _torch.mkldnn.rnn),
)
_lock, _inside = Lock(), 0  # threads may rank side by side, the switches are for all
_before: list[tuple[Any, str]] = []


@contextmanager
def ieee(device: torch.device) -> Iterator[None]:
    """Sums of float32 in IEEE float32: no TF32, no bfloat16 passes, no autocast; as it was afterwards."""
    global _inside
    with _lock:
        if not _inside:
            for switch in _switches:
                if switch.fp32_precision != "ieee":  # those that follow stay unset, as no value means that
                    _before.append((switch, switch.fp32_precision))
                    switch.fp32_precision = "ieee"
        _inside += 1
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        with _lock:
            _inside -= 1
            while not _inside and _before:
                switch, precision = _before.pop()
                switch.fp32_precision = precision


class Tally(NamedTuple):
    """The logits z of each row, reduced: every field has shape [T].

    greater, equal: counts against the target's logit (integers); truth: the target's logit; total: Σ exp(z − base)
    in float64, NaN if a logit is NaN and +inf if, and only if, one is +inf; base: a finite number for that, the
    target's logit or the highest one.
    """

    greater: torch.Tensor
    equal: torch.Tensor
    truth: torch.Tensor
    base: torch.Tensor
    total: torch.Tensor

    def possible(self, vocab: int) -> bool:
        """Whether these can be counts among `vocab` logits, rows with NaN aside."""
        counted = (self.greater >= 0) & (self.equal >= 1) & (self.greater + self.equal <= vocab)
        return bool((counted | self.total.isnan()).all())


@dataclass(frozen=True)
class TokenRanks:
    """Where each of T ground-truth tokens stands among all logits of its row.

    greater: [T] int64, how many logits are strictly higher than the target's. equal: [T] int64, how many equal
    it, itself included: 1 ≤ equal and greater + equal ≤ V. nll: [T] float32, the cross-entropy
    −ln softmax(z)[target] in nats (float64 where the logits are).
    """

    greater: torch.Tensor
    equal: torch.Tensor
    _nll: torch.Tensor

    @property
    def nll(self) -> torch.Tensor:
        """The cross-entropies, [T], nats. Raises RankError naming the first row that has a logit of +inf."""
        undefined = torch.isnan(self._nll)
        if undefined.any():
            what = "a logit is +inf, so no probability can be taken"
            raise RankError(what, first(undefined), "The ranks stand; float32 or a smaller scale avoids it.")
        return self._nll


def concluded(problem: Problem, tally: Tally) -> TokenRanks:
    """Ranks and cross-entropies from a tally. Raises RankError for a row with NaN."""
    not_a_number = torch.isnan(tally.total)
    if not_a_number.any():
        row = first(not_a_number)
        if problem.hidden[row].isnan().any():
            what = "the hidden state holds NaN"
        elif problem.weight.isnan().any() or (problem.bias is not None and problem.bias.isnan().any()):
            what = "a logit is NaN, as the output embedding holds NaN"
        else:
            what = "a logit is NaN, from infinite values or an overflow"
        raise RankError(what, row, "NaN has no place in an order: check the weights and the model's dtype.")
    nll = (tally.base.double() - tally.truth.double()) + tally.total.log()
    nll = nll.clamp(min=0)  # the target's own term may be rounded otherwise than its logit
    infinite = (tally.total == torch.inf) | (tally.truth == torch.inf)
    nll = nll.masked_fill(tally.truth == -torch.inf, torch.inf).masked_fill(infinite, torch.nan)
    return TokenRanks(tally.greater.long(), tally.equal.long(), nll.to(problem.dtype))


def finite(values: torch.Tensor) -> torch.Tensor:
    """The values, with 0 for the infinite ones: what exponents can be taken against."""
    return torch.where(values.isinf(), 0.0, values)


def first(mask: torch.Tensor) -> int:
    """The index of the first True."""
    return int(mask.int().argmax())
