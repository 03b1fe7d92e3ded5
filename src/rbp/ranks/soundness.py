"""What must be so before a model's ranks can be believed: it sees no later token, and what it keeps is known.

Also how far two computations of one logit may lie apart, by which every comparison of ranks is judged.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rbp.core.errors import ParameterError
from rbp.ranks.devices import waiting
from rbp.ranks.kernel.problem import FLOATS

Read = Callable[[torch.Tensor], list[torch.Tensor]]
PLACES = 64  # positions whose rounding is looked at together
BLOCK = 2**14  # rows of the output layer whose magnitudes are taken together


@dataclass(frozen=True)
class Head:
    """Logits are z = (h · weightᵀ + bias) · scale, then softcap · tanh(z / softcap) where there is one.

    weight: [V, d]; bias: [V] or None; h: the backbone's last hidden state.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    scale: float
    softcap: float | None


def find_head(model: Any) -> Head | None:
    """The output layer of a transformers model, or None where it is no single matrix.

    The multiplier goes by the name of `logit_scale` (Cohere), `lm_head_multiplier` (Falcon-H1), or divides as
    `logits_scaling` (Granite); the cap by `final_logit_softcapping` (Gemma 2). `compared` finds out whether
    that was all.
    """
    layer = model.get_output_embeddings()
    weight = getattr(layer, "weight", None)
    if model.base_model is model or not isinstance(weight, torch.Tensor) or weight.ndim != 2:
        return None
    if weight.dtype not in FLOATS or weight.is_meta:  # quantized; or it waits elsewhere until it is needed
        return None
    config = model.config.get_text_config()
    factors = [getattr(config, name, None) for name in ("logit_scale", "lm_head_multiplier")]
    divisor, cap = (getattr(config, name, None) for name in ("logits_scaling", "final_logit_softcapping"))
    scale = 1.0
    for factor in factors:
        scale *= factor if isinstance(factor, int | float) else 1.0
    scale /= divisor if isinstance(divisor, int | float) else 1.0
    return Head(weight.detach(), getattr(layer, "bias", None), scale, cap)


def units(dtype: str) -> float:
    """How far two computations of a sum in `dtype` may lie apart, as a share of its terms' magnitudes added up.

    Sums of some thousand products, in another order: rounded at every step in float32, or once in a short dtype.
    """
    eps = torch.finfo(getattr(torch, dtype)).eps
    return (256 if eps < 1e-5 else 2) * eps


def wide(values: torch.Tensor) -> torch.Tensor:
    """At least in float32; what is in float64 stays so."""
    return values if values.dtype == torch.float64 else values.float()


def slack(
    logits: torch.Tensor, dtype: str, hidden: torch.Tensor | None = None, head: Head | None = None
) -> torch.Tensor:
    """How far two computations of each of the logits [T, V] may lie apart, [T, V].

    Σᵢ |hᵢ wᵥᵢ| + |bᵥ| is what was summed for the logit of v, so one that is huge makes no other uncertain. hidden:
    [T, d]; without it and a head, the logit's own magnitude stands for its terms'.
    """
    magnitude = wide(logits).abs()
    if hidden is not None and head is not None:
        terms, width = wide(hidden).abs(), logits.shape[1]
        blocks = torch.split(head.weight[:width], BLOCK)  # a copy of all of a large one would not fit
        summed = torch.cat([terms @ block.abs().to(terms.dtype).T for block in blocks], 1)
        if head.bias is not None:
            summed += wide(head.bias[:width]).abs()
        magnitude = torch.maximum(magnitude, summed * head.scale)
    return units(dtype) * magnitude.masked_fill(logits.isinf(), 0)  # −inf stays −inf


def target_slack(
    truth: torch.Tensor, target: torch.Tensor, dtype: str, hidden: torch.Tensor | None, head: Head | None
) -> torch.Tensor:
    """`slack` of the targets' own logits `truth` [T] alone, [T]."""
    magnitude = wide(truth).abs()
    if hidden is not None and head is not None:
        summed = (wide(hidden).abs() * wide(head.weight[target]).abs()).sum(1)
        if head.bias is not None:
            summed += wide(head.bias[target]).abs()
        magnitude = torch.maximum(magnitude, summed * head.scale)
    return units(dtype) * magnitude.masked_fill(truth.isinf(), 0)


def between(
    logits: torch.Tensor, target: torch.Tensor, greater: torch.Tensor, equal: torch.Tensor, near: torch.Tensor
) -> torch.Tensor:
    """Whether counts can be those of logits [T, V] that rounding moves by `near` [T, V] at most: [T].

    target, greater, equal: [T]. They must lie between the counts with every near logit counted and with none.
    """
    logits = wide(logits)
    truth = logits.gather(1, target[:, None])
    own = near.gather(1, target[:, None])
    surely = (logits - near > truth + own).sum(1)
    possibly = (logits + near >= truth - own).sum(1)
    return (surely <= greater) & (greater + equal <= possibly)


def cross_entropy_slack(logits: torch.Tensor, target: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """How far two computations of −ln p of the targets [T] may lie apart, [T]; arguments as in `between`."""
    logits = wide(logits)
    shares = logits.softmax(1)
    moved = (shares * near).sum(1)
    own = near.gather(1, target[:, None])[:, 0]
    nll = logits.logsumexp(1) - logits.gather(1, target[:, None])[:, 0]
    return own + moved + units("float32") * (1 + nll.abs())


class Compared(NamedTuple):
    """Ranks beside those that plain counting finds among the model's own logits, each of shape [T].

    greater, equal, nll: the plain ones; apart: by how much the cross-entropies differ; other: whether the counts do;
    wrong: whether either does by more than rounding.
    """

    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: torch.Tensor
    apart: torch.Tensor
    other: torch.Tensor
    wrong: torch.Tensor


def compared(
    logits: torch.Tensor,
    target: torch.Tensor,
    ranks: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    dtype: str,
    hidden: torch.Tensor | None = None,
    head: Head | None = None,
) -> Compared:
    """Compare ranks (greater, equal, nll) with the model's own logits [T, V]; target: [T]; the rest: see `slack`.

    The cross-entropies must be as near as the counts: a wrong scale or cap keeps the order, but not the cross-entropy.
    """
    logits = wide(logits)
    truth = logits.gather(1, target[:, None])
    greater, equal = _counts(logits.cpu().numpy(), truth.cpu().numpy())
    nll = _cross_entropies(logits, truth)
    plain = (torch.from_numpy(each).to(logits.device) for each in (greater, equal))
    other = torch.stack([a != b for a, b in zip(plain, ranks[:2], strict=True)]).any(0)
    apart = torch.where(nll == ranks[2], 0.0, (nll - ranks[2].double()).abs())  # both may be infinite
    # most are the same, or as near as sums of exponentials come: rounding is asked of the rest alone
    wrong = other | ~(apart <= units("float32") * (1 + nll.abs()))
    for some in torch.split(torch.nonzero(wrong)[:, 0], PLACES):
        near = slack(logits[some], dtype, None if hidden is None else hidden[some], head)
        fine = between(logits[some], target[some], ranks[0][some], ranks[1][some], near)
        wrong[some] = ~(fine & (apart[some] <= cross_entropy_slack(logits[some], target[some], near)))
    return Compared(greater, equal, nll, apart, other, wrong)


def _cross_entropies(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """−ln p of the targets, whose logits are `truth` [T, 1], in float64: [T]."""
    buffer = torch.empty_like(logits[:PLACES])  # whose memory is touched once: a fifth of what logsumexp takes
    pairs = zip(torch.split(logits, PLACES), torch.split(truth, PLACES), strict=True)
    sums = [torch.sub(part, own, out=buffer[: len(part)]).exp_().sum(1) for part, own in pairs]
    found = torch.cat(sums).double().log()
    far = ~found.isfinite()  # where the target lies far below another, or is −inf
    found[far] = (logits[far].logsumexp(1) - truth[far, 0]).double()
    return found


def _counts(logits: npt.NDArray[Any], truth: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many of the logits [T, V] are higher than those of `truth` [T, 1], and how many equal them."""
    pairs = list(zip(logits, truth, strict=True))
    greater = np.array([np.count_nonzero(row > own) for row, own in pairs], dtype=np.int64)
    return greater, np.array([np.count_nonzero(row == own) for row, own in pairs], dtype=np.int64)


def differ(one: torch.Tensor, other: torch.Tensor, dtype: str) -> bool:
    """Whether two computations of the same vectors [..., d] differ by more than rounding.

    An entry is judged by itself and by the upper quartile of its vector's magnitudes: a few that are huge must not hide
    what the others do. NaN is the ranking's to name.
    """
    one, other = wide(one), wide(other)
    apart = (one - other).abs()
    typical = one.abs().kthvalue(max(1, one.shape[-1] * 3 // 4), dim=-1, keepdim=True).values
    return bool((apart > 8 * units(dtype) * (typical + one.abs())).any())


def fresh(model: Any) -> Any:
    """A copy of a model that shares its weights: what a model keeps of what it reads, it keeps for itself.

    Raises TypeError, or whatever a module raises that cannot be copied.
    """
    shared: dict[int, Any] = {id(each): each for each in model.parameters()}
    shared |= {id(each): each for each in waiting(model)}
    shared |= {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    return copy.deepcopy(model, shared)


@contextmanager
def shaken(model: Any, dtype: str, seed: int) -> Iterator[None]:
    """What a model reads moved by about as much as rounding: where that makes a leap of its logits, they have no value.

    So it is where experts are chosen, or tokens that are attended to, and two are as good as each other.
    """
    draw = torch.Generator().manual_seed(seed)

    def moves(_: Any, __: Any, given: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(given.shape, generator=draw).to(given.device)
        return given * (1 + units(dtype) / 16 * noise).to(given.dtype)

    try:
        hook = model.get_input_embeddings().register_forward_hook(moves)
    except NotImplementedError:  # of a model that does not say where its embeddings are: it stays as it is
        yield
        return
    try:
        yield
    finally:
        hook.remove()


def kept(model: nn.Module) -> dict[tuple[str, str], Any]:
    """All that a model holds beside its weights, by module and name: buffers, other tensors, numbers and words.

    Of weights it is how often they were written to; of those that wait elsewhere until they are needed, nothing.
    """
    internal = vars(nn.Module()).keys()
    found: dict[tuple[str, str], Any] = {}
    for place, module in model.named_modules():
        own = {name: value for name, value in vars(module).items() if name not in internal}
        for name, value in (own | dict(module.named_buffers(recurse=False))).items():
            found[place, name] = _noted(value)
        for name, parameter in module.named_parameters(recurse=False):
            found[place, name] = None if parameter.is_meta else parameter._version
    return found


def _noted(value: Any) -> Any:
    """A value that can be compared later: contents of lists and dictionaries too, and nothing of other objects."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return [_noted(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _noted(each) for name, each in value.items()}
    return value if isinstance(value, bool | int | float | str | None) else type(value).__name__


def same(one: Any, other: Any) -> bool:
    """Whether two results of `kept` are the same, bit for bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def sees_ahead(read: Read, ids: torch.Tensor, cuts: Iterable[int], vocabulary: int, dtype: str) -> bool:
    """Whether anything that `read` gives for the tokens before a cut depends on those from there on.

    ids: [1, n]; read gives tensors [1, n, …]. The other tokens are as many: positions may be encoded by how many there
    are.
    """
    whole = read(ids)
    for cut in cuts:
        others = torch.cat([ids[:, :cut], (ids[:, cut:] + 1) % vocabulary], 1)
        if any(differ(a[0, :cut], b[0, :cut], dtype) for a, b in zip(whole, read(others), strict=True)):
            return True
    return False


class _Narrow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether an operation gives float32."""

    seen = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.seen |= isinstance(result, torch.Tensor) and result.dtype == torch.float32
        return result


def check_double(model: Any, ids: torch.Tensor) -> None:
    """Raise ParameterError if a model in float64 computes part of its logits of `ids` [1, n] in float32."""
    with torch.inference_mode(), _Narrow() as narrow:  # type: ignore[no-untyped-call]
        model(input_ids=ids, use_cache=False)
    if narrow.seen:
        what = f"{model.config.model_type} computes parts in float32 whatever the dtype of its weights"
        raise ParameterError(what, "--dtype", "Take float32: float64 would promise what it does not give.")
