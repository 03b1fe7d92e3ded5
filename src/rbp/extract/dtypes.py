"""The dtypes of weights and hidden states, by name: known before PyTorch is imported."""

from typing import Literal, get_args

from rbp.errors import ParameterError

Dtype = Literal["float32", "bfloat16", "float16", "float64"]

BYTES: dict[Dtype, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def known_dtype(dtype: object) -> Dtype:
    """Return the name of a dtype, given by name or as one of PyTorch. Raises ParameterError for any other."""
    name = str(dtype).removeprefix("torch.")
    if name not in get_args(Dtype):
        raise ParameterError(f"unknown dtype {name!r}", "--dtype", f"There is: {', '.join(get_args(Dtype))}.")
    return name  # type: ignore[return-value]
