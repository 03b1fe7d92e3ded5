"""The output layer of a model, as the ranks need it, checked against the model's own logits."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rbp.errors import DataError, ParameterError, RankError
from rbp.extraction.models import LanguageModel
from rbp.ranking import TokenRanks
from rbp.ranking.problem import FLOATS


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
    `logits_scaling` (Granite); the cap by `final_logit_softcapping` (Gemma 2). `agrees` finds out whether
    that was all.
    """
    layer = model.get_output_embeddings()
    weight = getattr(layer, "weight", None)
    if model.base_model is model or not isinstance(weight, torch.Tensor) or weight.ndim != 2:
        return None
    if weight.dtype not in FLOATS:  # quantized
        return None
    config = model.config.get_text_config()
    factors = [getattr(config, name, None) for name in ("logit_scale", "lm_head_multiplier")]
    divisor, cap = (getattr(config, name, None) for name in ("logits_scaling", "final_logit_softcapping"))
    scale = 1.0
    for factor in factors:
        scale *= factor if isinstance(factor, int | float) else 1.0
    scale /= divisor if isinstance(divisor, int | float) else 1.0
    return Head(weight.detach(), getattr(layer, "bias", None), scale, cap)


def check_causal(language: LanguageModel, ids: torch.Tensor) -> None:
    """Raise DataError if what the model says of the first half of `ids` [1, n] depends on the tokens of the second.

    The other tokens are as many: a position encoding may depend on the length of the input.
    """
    half = ids.shape[1] // 2
    others = torch.cat([ids[:, :half], (ids[:, half:] + 1) % language.vocabulary], 1)
    with torch.inference_mode():
        whole, other = (language.model(input_ids=i, use_cache=False).logits[0, :half].float() for i in (ids, others))
    if float((whole - other).abs().max()) > 8 * rounding(whole, language.dtype):  # NaN is the ranking's to name
        what = "the model sees the tokens that it is asked to predict"
        raise DataError(what, language.model.config.model_type, "Take a causal model, not a masked one.")


class _Narrow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether an operation gives float32."""

    seen = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.seen |= isinstance(result, torch.Tensor) and result.dtype == torch.float32
        return result


def check_double(language: LanguageModel, ids: torch.Tensor) -> None:
    """Raise ParameterError if a model in float64 computes part of its logits of `ids` [1, n] in float32."""
    with torch.inference_mode(), _Narrow() as narrow:  # type: ignore[no-untyped-call]
        language.model(input_ids=ids, use_cache=False)
    if narrow.seen:
        what = f"{language.model.config.model_type} computes parts in float32 whatever the dtype of its weights"
        raise ParameterError(what, "--dtype", "Take float32: float64 would promise what it does not give.")


def agrees(logits: torch.Tensor, target: torch.Tensor, ranks: TokenRanks, slack: float) -> bool:
    """Whether ranks agree with the model's own logits, except where logits lie within rounding.

    logits: [T, V], the model's own; target: [T]; ranks: of the same positions; slack: how far two computations
    of one logit may lie apart. The ranks must lie between those with every near logit counted and with none,
    and the cross-entropies as near: a wrong scale or cap keeps the order, but not the cross-entropy.
    """
    logits = _wide(logits)
    truth = logits.gather(1, target[:, None])
    surely = (logits > truth + slack).sum(1)
    possibly = (logits >= truth - slack).sum(1)
    between = (surely <= ranks.greater) & (ranks.greater + ranks.equal <= possibly)
    own = logits.logsumexp(1) - truth[:, 0]
    return bool(between.all()) and bool(((own - ranks.nll).abs() <= 2 * slack).all())


def rounding(logits: torch.Tensor, dtype: str) -> float:
    """How far two computations of one logit in `dtype` may lie apart, by the largest of `logits`."""
    eps = torch.finfo(getattr(torch, dtype)).eps
    # sums of some thousand products, in another order: rounded at every step in float32, or once in a short dtype
    units = 256 if eps < 1e-5 else 2
    finite = logits[logits.isfinite()]
    return units * eps * float(finite.abs().max()) if finite.numel() else 0.0


def rank_logits(logits: torch.Tensor, target: torch.Tensor) -> TokenRanks:
    """The ranks of target [T] among logits [T, V] that are at hand.

    The −ln p of a target at −inf is infinite, as in `linear_rank`. Raises RankError where a logit is NaN or +inf.
    """
    if (nan := logits.isnan().any(1)).any():
        raise RankError("a logit is NaN", int(nan.int().argmax()), "Check the weights and the model's dtype.")
    if (infinite := logits.isposinf().any(1)).any():
        remedy = "Check the weights and the model's dtype."
        raise RankError("a logit is +inf: no probability is defined", int(infinite.int().argmax()), remedy)
    logits = _wide(logits)
    truth = logits.gather(1, target[:, None])
    nll = logits.double().logsumexp(1) - truth[:, 0].double()
    nll = torch.where(truth[:, 0].isneginf(), torch.inf, nll)  # where all are −inf, the difference is undefined
    return TokenRanks((logits > truth).sum(1), (logits == truth).sum(1), nll.float())


def _wide(logits: torch.Tensor) -> torch.Tensor:
    """At least in float32; what is in float64 stays so."""
    return logits if logits.dtype == torch.float64 else logits.float()
