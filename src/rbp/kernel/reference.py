"""The reference for tests: all logits are stored, and counted in the plainest way."""

import torch
from torch.nn.functional import pad

from rbp.kernel.problem import Problem, Tally, finite


def tally(problem: Problem) -> Tally:
    """Count over the whole matrix of logits, [T, V]. Memory: about 28 bytes per logit."""
    logits, names = _logits(problem), problem.names
    truth = logits.gather(1, problem.target[:, None])
    logits = torch.where(names == names[problem.target][:, None], truth, logits)  # equal rows of weight tie
    base = finite(logits.amax(1))
    return Tally(
        greater=(logits > truth).sum(1),
        equal=(logits == truth).sum(1),
        truth=truth[:, 0],
        base=base,
        total=(logits.double() - base[:, None].double()).exp().sum(1),
        top=logits.argmax(1),
    )


def _logits(problem: Problem) -> torch.Tensor:
    """Compute the logits [T, V], from a product padded to whole vector kernels."""
    rows, width = problem.hidden.shape[0], problem.weight.shape[0]
    hidden = pad(problem.hidden.to(problem.dtype), (0, 0, 0, -rows % 128))
    weight = pad(problem.weight.to(problem.dtype), (0, 0, 0, -width % 1152))
    bias = problem.bias if problem.bias is None else pad(problem.bias.to(problem.dtype), (0, weight.shape[0] - width))
    return problem.finish(torch.mm(hidden, weight.T), bias)[:rows, :width]
