"""Problems whose logits are known exactly, and what their ranks must be by sorting."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch

from rbp.kernel import linear_rank
from rbp.kernel.problem import TokenRanks


def has_compiler() -> bool:
    """Whether torch could compile for the CPU here; where it cannot, ranks are counted plainly."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


DTYPES = [torch.float32, torch.bfloat16, torch.float16]
#: whether this is the process in which test_triton.py has the kernels run by Triton's interpreter
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BACKENDS = ["tiles", "triton"] if INTERPRETED else ["reference", "blocked"]


@dataclass
class Case:
    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    options: dict[str, Any] = field(default_factory=dict)

    def logits(self) -> torch.Tensor:
        """[T, vocab] float64: small whole numbers all along, so every way of computing them gives the same."""
        o = self.options
        z = self.hidden.double() @ self.weight.double().T
        if o.get("bias") is not None:
            z = z + o["bias"].double()
        z = z * o.get("scale", 1.0)
        if o.get("softcap") is not None:
            z = ((z.float() / o["softcap"]).tanh() * o["softcap"]).double()  # float32 decides what ties
        if o.get("round_logits"):
            z = z.bfloat16().double()
        return z[:, : o.get("vocab")]

    def by_sorting(self) -> tuple[np.ndarray, np.ndarray]:
        """Greater and equal, from each row's sorted logits."""
        rows = self.logits().numpy()
        truth = np.take_along_axis(rows, self.target.numpy()[:, None], axis=1)[:, 0]
        ordered = np.take_along_axis(rows, np.argsort(rows, axis=1), axis=1)
        low = [np.searchsorted(row, t, "left") for row, t in zip(ordered, truth, strict=True)]
        high = [np.searchsorted(row, t, "right") for row, t in zip(ordered, truth, strict=True)]
        return rows.shape[1] - np.array(high, dtype=int), np.array(high, dtype=int) - np.array(low, dtype=int)


def ranks(case: Case, backend: str = "blocked") -> TokenRanks:
    """By a backend, and by no other where its counts cannot be."""
    with mock.patch("rbp.kernel._say_once", side_effect=AssertionError):
        return linear_rank(case.hidden, case.weight, case.target, backend=backend, **case.options)


def gaussian(
    rows: int, columns: int, d: int, seed: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> Case:
    """Logits of a model's size (standard deviation 3), with two pairs of equal rows of weight, targets among them.

    Drawn on the device: by Philox on a GPU, which is fast, and another draw than a CPU's.
    """
    generator = torch.Generator(device).manual_seed(seed)
    own: dict[str, Any] = {"generator": generator, "device": device}
    hidden = torch.randn(rows, d, **own) * 3
    weight = torch.randn(columns, d, **own) / d**0.5
    weight[-1], weight[columns // 2] = weight[0], weight[0]
    target = torch.randint(0, columns, (rows,), **own)
    target[::5] = 0
    return Case(hidden.to(dtype), weight.to(dtype), target)


def ulp(values: torch.Tensor) -> torch.Tensor:
    """The float32 spacing at each value, of 1 at least."""
    return torch.from_numpy(np.spacing(values.abs().clamp(min=1).float().numpy())).double()


def uneven(product: Callable[..., Any]) -> Callable[..., Any]:
    """`product`, rounded up by a unit in some columns and down in others, as if by the place in a block."""

    def rounded(*args: Any, **options: Any) -> Any:
        out = product(*args, **options)
        columns = torch.from_numpy(out) if isinstance(out, np.ndarray) else out
        for first, towards in ((1, float("inf")), (2, -float("inf"))):
            part = columns[:, first::3]
            part.copy_(part.nextafter(torch.full_like(part, towards)))
        return out

    return rounded
