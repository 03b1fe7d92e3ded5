"""The output layer where it is one matrix, its logits, and the rounding between two computations of a logit."""

import math
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from rbp.kernel.problem import FLOATS
from rbp.models.identity import holds_more

BLOCK = 2**14  # rows of the output layer that are widened together: a copy of all of a large one would not fit


@dataclass(frozen=True)
class Head:
    """Logits are z = (h · weightᵀ + bias) · scale, then softcap · tanh(z / softcap) where there is one.

    weight: [V, d]; bias: [V] or None; h: what the output layer reads.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    scale: float
    softcap: float | None

    @property
    def roundings(self) -> int:
        """Return how often a model in a short dtype rounds each logit."""
        return 1 + (self.scale != 1) + 2 * (self.softcap is not None)


def output_layer(model: Any) -> nn.Module | None:
    """Return the module whose input the logits are a product of; where an adapter trains it in full, that one."""
    layer: Any = model.get_output_embeddings()
    if hasattr(layer, "modules_to_save") and hasattr(layer, "original_module"):
        active = [] if layer.disable_adapters else [n for n in layer.active_adapters if n in layer.modules_to_save]
        layer = layer.modules_to_save[active[0]] if active else layer.original_module
    return layer if isinstance(layer, nn.Module) else None


def find_head(model: Any) -> Head | None:
    """Return the output layer of a transformers model, or None where it is no single matrix.

    An adapter on it, hooks on it or on what it is part of, or a replaced forward pass may do anything to logits, so
    none is one matrix. The multiplier goes by the name of `logit_scale` (Cohere), `lm_head_multiplier` (Falcon-H1), or
    divides as `logits_scaling` (Granite); the cap by `final_logit_softcapping` (Gemma 2). `probe_model` finds out
    whether that was all.
    """
    layer = output_layer(model)
    weight: Any = getattr(layer, "weight", None)
    if layer is None or any(layer.children()) or not isinstance(weight, torch.Tensor) or weight.ndim != 2:
        return None
    # quantized; or it waits elsewhere until it is needed
    if weight.dtype not in FLOATS or weight.is_meta or holds_more(weight):
        return None
    around = [module for module in model.modules() if any(part is layer for part in module.modules())]
    if layer._forward_pre_hooks or any(module._forward_hooks or _is_replaced(module) for module in around):
        return None
    config = model.config.get_text_config()
    factors = [getattr(config, name, None) for name in ("logit_scale", "lm_head_multiplier")]
    divisor, cap = (getattr(config, name, None) for name in ("logits_scaling", "final_logit_softcapping"))
    scale = math.prod(factor for factor in factors if isinstance(factor, int | float))
    if isinstance(divisor, int | float):
        scale = scale / divisor if divisor else math.nan
    if not (0 < scale < math.inf) or not (cap is None or 0 < cap < math.inf):
        return None
    return Head(weight.detach(), getattr(layer, "bias", None), float(scale), cap)


def _is_replaced(module: nn.Module) -> bool:
    """Return whether a module runs another forward pass than its class's: not accelerate's, nor a module's method."""
    forward = vars(module).get("forward")
    return not (forward is None or hasattr(module, "_hf_hook") or isinstance(forward, types.MethodType))


def wide(values: torch.Tensor) -> torch.Tensor:
    """Widen values to float32; float64 stays."""
    return values if values.dtype == torch.float64 else values.float()


def head_logits(head: Head, hidden: torch.Tensor, rounded: torch.dtype | None = None) -> torch.Tensor:
    """Compute the logits [T, V] of what the output layer reads [T, d], in float32 or float64.

    rounded: the dtype that each step's result is rounded to, as a model does that computes in it.
    """
    blocks = torch.split(head.weight, BLOCK)
    logits = torch.cat([wide(hidden) @ wide(block).to(wide(hidden).dtype).T for block in blocks], 1)
    logits = _rounded(logits if head.bias is None else logits + wide(head.bias), rounded)
    if head.scale != 1:
        logits = _rounded(logits * head.scale, rounded)
    if head.softcap is None:
        return logits
    capped = _rounded(torch.tanh(_rounded(logits / head.softcap, rounded)), rounded)
    return _rounded(capped * head.softcap, rounded)


def _rounded(values: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return values if dtype is None else values.to(dtype).to(values.dtype)


def tolerance(
    logits: torch.Tensor, dtype: torch.dtype, hidden: torch.Tensor | None, head: Head | None, *, apart: bool = False
) -> torch.Tensor:
    """Bound how far logits [T, V] may lie from others of the same hidden states [T, d]; gives [T, V].

    ε·|z| for each time that `dtype` rounds a logit, and 256·ε₃₂·Σᵢ|hᵢ wᵥᵢ| for sums of some thousand products in
    another order: what was summed for the logit of v, so that one that is huge makes no other uncertain. Without hidden
    states and a head, |z| stands for the sum. apart: hidden states, too, were computed twice: in a short dtype these
    differ by 2ε.
    """
    eps, single = torch.finfo(dtype).eps, 256 * torch.finfo(torch.float32).eps
    unit = min(single, 256 * eps) if eps < 1e-5 else 2 * eps if apart else single
    size = wide(logits).abs().nan_to_num(posinf=0)
    if hidden is None or head is None:
        return (unit + eps) * size
    terms, rows = wide(hidden).abs(), head.weight[: logits.shape[1]]
    summed = torch.cat([terms @ block.abs().to(terms.dtype).T for block in torch.split(rows, BLOCK)], 1)
    if head.bias is not None:
        summed += wide(head.bias[: logits.shape[1]]).abs().nan_to_num(posinf=0)
    return head.roundings * eps * size + unit * head.scale * summed
