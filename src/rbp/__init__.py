"""Token ranks of causal language models, their scaling with size, and the book that reruns the evidence.

For programs there are six names: `rank`, `compare`, `law`, `plot`, `open_source` and `linear_rank`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rbp.api import compare, law, plot, rank
    from rbp.kernel import linear_rank
    from rbp.measurements import open_source

if sys.platform == "win32":  # files are locked and exchanged by what POSIX has
    raise ImportError("rbp runs on Linux and macOS, not on Windows itself. Use it in WSL (wsl --install).")

__version__ = "0.1.0"
__all__ = ["compare", "law", "linear_rank", "open_source", "plot", "rank"]

_ELSEWHERE = {"linear_rank": "rbp.kernel", "open_source": "rbp.measurements"}


def __getattr__(name: str) -> Any:
    """Import one of the six names when it is first needed: torch takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "rbp.api")), name)


def __dir__() -> list[str]:
    return __all__
