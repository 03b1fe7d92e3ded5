"""Models in GGUF files: what such a file says of its model, and whether transformers takes all of it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from rbp.core.errors import DataError, first_line
from rbp.core.names import and_more

SUFFIX = ".gguf"
_AS_GPT2 = ("gpt-2", "mpt", "olmo", "phi-2")  # llama.cpp's names of tokenizers that cut text into words as GPT-2's
_INSTEAD = "Give the model that it was made from, saved as safetensors."


@contextmanager
def alone(file: Path) -> Iterator[dict[str, Any]]:
    """Arguments by which transformers reads the file and nothing that lies beside it."""
    with TemporaryDirectory() as empty:
        yield {"pretrained_model_name_or_path": empty, "gguf_file": str(file.absolute())}


def read(file: Path, name: str) -> tuple[dict[str, Any], str]:
    """The configuration in a file, and how most numbers of its matrices are stored. name: what errors name.

    Raises DataError if gguf is not installed, or for a file that transformers cannot read, or not rightly.
    """
    from transformers import AutoConfig

    try:
        from gguf import GGUFReader
    except ImportError:
        what = "this is a GGUF file, which gguf has to read, and gguf is not installed"
        remedy = "pip install 'rbp[gguf]', or give the model that it was made from, saved as safetensors."
        raise DataError(what, name, remedy) from None
    try:
        from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS as SPLITS

        reader = GGUFReader(file)
        with alone(file) as source:
            config = AutoConfig.from_pretrained(**source).to_dict()
    except Exception as error:  # of many kinds: no GGUF file, cut short, an architecture it does not know
        raise DataError(f"cannot read the GGUF file: {first_line(error)}", name, _INSTEAD) from None
    scaled = [key for key in reader.fields if ".rope.scaling." in key and reader.fields[key].contents() != "none"]
    scaled += [tensor.name for tensor in reader.tensors if tensor.name.startswith("rope_")]
    if scaled:
        what = f"positions are scaled ({and_more(scaled)}), which transformers passes over in a GGUF file"
        raise DataError(what, name, _INSTEAD)
    byte_level, cut = (
        (field := reader.fields.get(f"tokenizer.ggml.{key}")) and field.contents() for key in ("model", "pre")
    )
    if byte_level == "gpt2" and cut not in {*SPLITS, *_AS_GPT2}:
        what = f"transformers does not know how the tokenizer in the GGUF file cuts text into words ({cut})"
        raise DataError(what, name, _INSTEAD)
    kinds = Counter[str]()
    for tensor in reader.tensors:
        if len(tensor.shape) > 1:
            kinds[tensor.tensor_type.name] += int(tensor.n_elements)
    if not kinds:
        raise DataError("the GGUF file holds no weights", name, _INSTEAD)
    return config, kinds.most_common(1)[0][0]


def must_take_all(model: nn.Module, file: Path, name: str) -> None:
    """Raise DataError unless the model has as many numbers as the file: transformers passes over what it cannot place.

    name: what the error names.
    """
    from gguf import GGUFReader

    there = sum(int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    own = {values.data_ptr(): values.numel() for values in model.state_dict().values()}  # a shared one counts once
    if sum(own.values()) != there:
        what = f"transformers takes {sum(own.values()):,} of the {there:,} numbers in the GGUF file"
        raise DataError(what, name, _INSTEAD)
