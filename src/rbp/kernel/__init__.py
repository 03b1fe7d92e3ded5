"""The rank of every ground-truth token among all logits of a language model, without storing the logits.

A causal language model gives each token v of its vocabulary a logit, the product of the last hidden state with
v's row of the output embedding. `linear_rank` counts, for every position, how many logits are higher than the
ground truth's and how many equal it (the two halves of equation 3 of the paper), and takes its cross-entropy
(equation 2), all in one sweep over tiles of the logits.

Four backends give the same counts: `reference` stores the logits and is the judge, `blocked` runs on any torch device;
on a GPU, `tiles` counts the vendor's products, and `triton` is one fused kernel.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

from rbp.choices import Backend, Rounding, known_backend
from rbp.errors import ParameterError
from rbp.kernel import blocked, reference
from rbp.kernel.names import EqualRows, equal_rows
from rbp.kernel.problem import Problem, Tally, TokenRanks, finish_ranks, ieee, judged, problem
from rbp.kernel.reduction import PAYS, reduce_eagerly

__all__ = ["EqualRows", "backend_for", "compiling_pays", "equal_rows", "linear_rank"]

CAPABILITY = (8, 0)  # of a GPU that runs the kernels

log = logging.getLogger("rbp.kernel")


def linear_rank(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    vocab: int | None = None,
    round_logits: Rounding | None = None,
    backend: Backend = "auto",
    compiled: bool = True,
    equal: EqualRows | None = None,
) -> TokenRanks:
    """Compute the rank and the cross-entropy of each target among all logits hidden · weightᵀ.

        >>> import rbp, torch
        >>> hidden, weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[2.0, 0.0], [1.0, 3.0], [0.0, 3.0]])
        >>> ranks = rbp.linear_rank(hidden, weight, torch.tensor([1, 2]))
        >>> ranks.greater.tolist(), ranks.equal.tolist()
        ([1, 0], [1, 2])

    hidden: [T, d]; weight: [V, d]; target: [T], whole numbers in 0 … V − 1; all on one device. The logits are z =
    (hidden · weightᵀ + bias) · scale, with bias [V], then softcap · tanh(z / softcap) where one is given (Gemma 2).

    - vocab: only the first `vocab` rows of weight count; the others merely pad the matrix.
    - round_logits: "bfloat16" rounds the logits as a bfloat16 model does, so that many are equal. Otherwise they are
      accumulated and compared in float32, or in float64 if hidden or weight is.
    - compiled: False has `blocked` count by plain operations, without the seconds that compiling takes: the same
      counts, and nll to its last bits.
    - equal: `equal_rows(weight, bias, vocab)`, for many calls with one output layer; None: they are looked for anew.

    Returns TokenRanks(greater [T], equal [T], nll [T], top [T]), on the device of hidden; top is the likeliest token,
    the one with the lowest id where several are. A target at −inf has an nll of +inf.
    Raises ParameterError for arguments that do not fit together, and RankError, naming the row, where a logit is NaN;
    TokenRanks.nll raises it where a logit is +inf.

    Exact: greater and equal count one logit for each token. A target is equal to itself, and to every token with the
    same bits in its row of weight and in its bias. Only to rounding: each logit is a float32 sum over d terms, known to
    d · 2⁻²⁴ · ‖h‖ · ‖w‖; tokens that are nearer may change places on another processor, backend or library.

    On a GPU the call waits once for its work, as it raises what is wrong.
    """
    with exactly(hidden.device):
        checked = problem(hidden, weight, target, bias, scale, softcap, vocab, round_logits, equal)
        tally = count(checked, backend, compiled)
        verdict = judged(checked, tally)
        if not verdict.impossible:
            return finish_ranks(checked, tally, verdict)
        _say_once(backend, checked.hidden.device)  # the machine's fault, or its compiler's: no user's to mend
        return finish_ranks(checked, blocked.tally(checked, reduce=reduce_eagerly))


def backend_for(device: torch.device, dtype: torch.dtype) -> Backend:
    """Return the backend that "auto" takes on `device` for hidden states and weight in `dtype`.

    On a GPU that can, the vendor's products for float32, and for shorter ones the fused kernel; else blocks. The
    kernels are for GPUs of compute capability 8.0 (Ampere) and above: older ones have no units that multiply bfloat16,
    and too few registers for the tiles. Nothing else decides, least of all the number of rows.
    """
    if device.type != "cuda" or dtype == torch.float64 or not find_spec("triton"):
        return "blocked"
    if torch.cuda.get_device_capability(device) < CAPABILITY:
        return "blocked"
    return "tiles" if dtype == torch.float32 else "triton"


@contextmanager
def exactly(device: torch.device) -> Iterator[None]:
    """Compute as ranks need it, whatever the caller has set: no gradients, IEEE products."""
    with torch.inference_mode(False), torch.no_grad(), ieee(device):
        yield


def compiling_pays(logits: int) -> bool:
    """Return whether counting so many logits, tokens × vocabulary, takes longer plainly than compiling does."""
    return logits >= PAYS


def count(checked: Problem, backend: Backend, compiled: bool) -> Tally:
    """Tally by a backend; nobody has looked at it yet, so that a GPU need not be waited for."""
    if known_backend(backend) == "auto":
        dtype = torch.promote_types(checked.hidden.dtype, checked.weight.dtype)
        backend = backend_for(checked.hidden.device, checked.dtype if checked.dtype == torch.float64 else dtype)
    if backend in ("tiles", "triton"):
        try:
            from rbp.kernel import tiles, triton_kernel  # late: triton is slow to import, and not everywhere
        except ImportError as error:
            raise ParameterError("triton is not installed", "backend", 'Take backend="blocked".') from error
        return tiles.tally(checked) if backend == "tiles" else triton_kernel.tally(checked)
    if backend == "reference":
        return reference.tally(checked)
    return blocked.tally(checked, reduce=None if compiled else reduce_eagerly)


@cache
def _say_once(backend: str, device: torch.device) -> None:
    log.warning(
        "backend %s gave counts that cannot be on %s: such calls are ranked again by plain tiles.", backend, device
    )
