"""Moved: this name goes on working for one version. Import from `rbp.ranks.kernel`."""

from warnings import warn

from rbp.ranks.kernel import Backend, backend_for, linear_rank
from rbp.ranks.kernel.problem import TokenRanks

__all__ = [
    "Backend",
    "TokenRanks",
    "backend_for",
    "linear_rank",
]

warn("rbp.ranking has moved to rbp.ranks.kernel", DeprecationWarning, stacklevel=2)
