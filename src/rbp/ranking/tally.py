"""What a backend hands back, and the ranks and cross-entropies that follow from it."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from rbp.errors import RankError
from rbp.ranking.problem import Problem


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
