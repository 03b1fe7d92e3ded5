"""Degrade one model: its input, its depth, its weights, or its logits.

Paths lead from the whole model to a nearly useless one, a step at a time:

    context       exactly so many tokens before each scored one: 1 to 64
    depth         so many of its layers, then its final norm and its output layer
    bits          the matrices of its layers, rounded to so many bits
    replaced      so large a share of what it reads replaced by other tokens of the same text
    weights       noise on these matrices: so large a standard deviation, in root mean squares of each
    logits        noise on the logits: so large a standard deviation, in nats

Embeddings and the output layer stay as they are: S does not count them either.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from companion.damage.sums import STEPS
from rbp.errors import ParameterError
from rbp.models.load import LanguageModel
from rbp.texts.protocol import Row

DRAWS = 3  # of noise on weights and on logits
GROUP = 64  # weights next to one another in a row that are rounded by the largest among them


class Step(NamedTuple):
    """A step of a path: how far it goes, and which draw of its noise."""

    path: str
    step: float
    draw: int = 0

    @property
    def seed(self) -> int:
        """Return the seed of all that is drawn for the step."""
        return 1000 * (self.draw + 1) + round(100 * self.step)


@dataclass(frozen=True)
class Reading:
    """What a model reads in one go: `ids`, and the tokens it has to predict: `targets`, after `places`."""

    document: int
    ids: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]


def steps(path: str, language: LanguageModel) -> list[Step]:
    """List the steps of a path, draw by draw. Raises ParameterError for a path that a model does not have.

    A depth has a model whose output is the final norm of what its last layer gives.
    """
    if path not in STEPS:
        raise ParameterError(f"there is no path {path!r}", "--paths", f"There is: {', '.join(STEPS)}.")
    chosen = STEPS[path] if path != "depth" else tuple(range(len(_layers(language)[2]) - 1, -1, -1))
    draws = DRAWS if path in ("weights", "logits") else 1
    return [Step(path, step, draw) for draw in range(draws) for step in chosen]


def readings(rows: Sequence[Row], step: Step) -> list[Reading]:
    """Return what a model reads at a step, in the order of the rows' scored tokens."""
    if step.path == "context":
        before = int(step.step)
        at, last = ((row, s) for row in rows for s in row.scored), np.array([before - 1])
        return [Reading(row.document, row.ids[s - before : s], last, row.ids[s : s + 1]) for row, s in at]
    whole = [Reading(row.document, row.ids[:-1], row.scored - 1, row.ids[row.scored]) for row in rows]
    if step.path != "replaced":
        return whole
    draw, pool = np.random.default_rng(step.seed), np.concatenate([row.ids[row.scored] for row in rows])

    def other(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(draw.random(len(ids)) < step.step, draw.choice(pool, len(ids)), ids)

    return [Reading(each.document, other(each.ids), each.places, each.targets) for each in whole]


@contextmanager
def degraded(language: LanguageModel, step: Step) -> Iterator[None]:
    """Change the model to what it is at a step, then restore it; callers change what it reads, and its logits."""
    if step.path == "depth":
        parent, name, layers = _layers(language)
        setattr(parent, name, nn.ModuleList(list(layers)[: int(step.step)]))
        try:
            yield
        finally:
            setattr(parent, name, layers)
        return
    draw = torch.Generator().manual_seed(step.seed)
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "bits": lambda weights: rounded(weights, int(step.step)),
        "weights": lambda weights: _noisy(weights, step.step, draw),
    }
    if step.path not in changes:
        yield
        return
    before = [(matrix, matrix.detach().clone()) for matrix in matrices(language.model)]
    try:
        with torch.no_grad():
            for matrix, original in before:
                matrix.copy_(changes[step.path](original))
        yield
    finally:
        with torch.no_grad():
            for matrix, original in before:
                matrix.copy_(original)


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return all weights of two dimensions and more but the embeddings' and the output layer's."""
    apart: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = getattr(model, "get_output_embeddings", lambda: None)()
    apart += [output] if isinstance(output, nn.Module) else []
    left_out = {id(parameter) for module in apart for parameter in module.parameters()}
    return [each for each in model.parameters() if each.ndim > 1 and id(each) not in left_out]


def rounded(weights: torch.Tensor, bits: int) -> torch.Tensor:
    """Round weights to the nearest of 2^bits − 1 values, evenly from −m to m; m: the largest magnitude of its group.

    A group is GROUP weights next to one another in a row (the last one of a row may be shorter).
    """
    parts = []
    for group in torch.split(weights.float(), GROUP, dim=-1):
        unit = group.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        parts.append((group / unit.clamp(min=torch.finfo(torch.float32).tiny)).round() * unit)
    return torch.cat(parts, -1).to(weights.dtype)


def _noisy(weights: torch.Tensor, size: float, draw: torch.Generator) -> torch.Tensor:
    noise = torch.randn(weights.shape, generator=draw).to(weights.device)
    return (weights.float() + size * weights.float().square().mean().sqrt() * noise).to(weights.dtype)


def _layers(language: LanguageModel) -> tuple[nn.Module, str, nn.ModuleList]:
    """Find a model's list of layers, its parent and name. Raises ParameterError unless a norm alone follows them."""
    backbone: Any = language.model.base_model
    depth = getattr(language.model.config.get_text_config(), "num_hidden_layers", 0)
    for path, layers in backbone.named_modules():
        if isinstance(layers, nn.ModuleList) and len(layers) == depth and _norm_follows(backbone, layers):
            parent, _, name = path.rpartition(".")
            return backbone.get_submodule(parent), name, layers
    kind = language.model.config.model_type
    what = f"{kind} has no final norm right after its layers, through which one could leave earlier"
    raise ParameterError(what, f"{language.name}, --paths depth", "Leave out depth.")


def _norm_follows(backbone: Any, layers: nn.ModuleList) -> bool:
    """Return whether a single module named a norm turns the last layer's output into the backbone's."""
    inside = {id(module) for module in layers.modules()}
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    last: list[torch.Tensor] = []
    hooks = [layers[-1].register_forward_hook(lambda _, __, out: last.append(_first(out)))]
    for module in backbone.modules():
        if id(module) not in inside and "norm" in type(module).__name__.lower():
            note = lambda _, given, out: seen.append((_first(given), _first(out)))  # noqa: E731
            hooks.append(module.register_forward_hook(note))
    try:
        with torch.inference_mode():
            ids = torch.arange(2, device=next(backbone.parameters()).device)[None]
            out = backbone(input_ids=ids, use_cache=False)[0]
    finally:
        for hook in hooks:
            hook.remove()
    return any(torch.equal(given, last[-1]) and torch.equal(normed, out) for given, normed in seen)


def _first(value: Any) -> torch.Tensor:
    """Return a module's input or output: the tensor itself, or the first of several."""
    first: torch.Tensor = value[0] if isinstance(value, tuple) else value
    return first
