"""How large models are, without a network: from the published table, or from a configuration that is at hand."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rbp.study.file import ModelEntry
from rbp.study.names import published_models


@dataclass(frozen=True)
class Size:
    """A model's size.

    non_embedding: S; total: all parameters, an output layer of its own included; head: the entries of the output layer,
    V · d; vocabulary: V; source: where that is known from. For the published models head is their embedding parameters:
    exact for Pythia and Qwen2.5, and 2 to 9% too much for GPT-2 and OPT, whose learned positions are among them; and
    total counts the output layer apart from the embedding, which it is not in GPT-2, OPT and the smaller Qwen2.5.
    """

    non_embedding: int
    total: int
    head: int
    vocabulary: int
    source: str

    @property
    def width(self) -> int:
        """d, of the hidden states: from the head."""
        return self.head // self.vocabulary


def model_size(model: ModelEntry) -> Size | None:
    """The size of a model; None where neither the published table nor this machine knows it."""
    row = published_models().get(model.name)
    if row is not None:
        embedding = int(row["embedding_params"])
        return Size(
            non_embedding=int(row["non_embedding_params"]),
            total=int(row["total_params"]) + embedding,
            head=embedding,
            vocabulary=int(row["vocab_size"]),
            source="data/published/models.csv",
        )
    folder = Path(model.name)
    return _of_config(folder if folder.is_dir() else _cached(model))


def _cached(model: ModelEntry) -> Path | None:
    """The folder of a hub model's configuration, if it was downloaded before."""
    from huggingface_hub import errors, try_to_load_from_cache

    try:
        found = try_to_load_from_cache(model.name, "config.json", revision=model.revision)
    except errors.HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


@cache
def _of_config(folder: Path | None) -> Size | None:
    """The size by a configuration: the model is built without its weights, by code of transformers alone."""
    if folder is None or not (folder / "config.json").is_file():
        return None
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from rbp.extraction.sizes import non_embedding_params

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    except Exception:  # transformers raises many kinds: an unknown size is all that follows here
        return None
    text = config.get_text_config()
    return Size(
        non_embedding=non_embedding_params(model),
        total=sum(parameter.numel() for parameter in model.parameters()),
        head=int(text.vocab_size) * int(text.hidden_size),
        vocabulary=int(text.vocab_size),
        source="config.json",
    )
