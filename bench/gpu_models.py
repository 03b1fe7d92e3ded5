"""Parts of `python -m bench.gpu`: ranking with whole models of random weights, against the plain way and the backbone.

The plain way is the authors': all logits of a batch, their softmax, the 10 000 likeliest tokens, a count. Rows of
random tokens are ranked from memory; the whole call reads a model's files and text, checks, and writes a store.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from bench.common import Question, in_turn, spread
from bench.ranking import plain
from rbp.choices import Dtype
from rbp.extract.forward import Ranker
from rbp.extract.models import LanguageModel, non_embedding_params
from rbp.extract.protocol import Row

LENGTH = 512  # tokens of a row: the authors' protocol
BATCH = 32  # rows at a time, the default of `rbp extract` on a GPU
PLAIN = 8  # rows at a time whose logits are stored whole
BACKBONE, PLAINLY = "backbone alone", "plain way: logits, softmax, top 10 000, count"


class Shape(NamedTuple):
    """A GPT-NeoX model, and how many documents it reads."""

    name: str
    layers: int
    d: int
    heads: int
    intermediate: int
    vocabulary: int
    documents: int


PYTHIA_70M = Shape("Pythia-70M", 6, 512, 8, 2048, 50304, 512)
PYTHIA_1_4B = Shape("Pythia-1.4B", 24, 2048, 16, 8192, 50304, 64)
TINY = Shape("a tiny model", 2, 32, 2, 64, 512, 6)


def pythia_70m(tiny: bool) -> list[Question]:
    """Ask about a small model: what is around the model costs most."""
    return _questions(PYTHIA_70M, tiny)


def pythia_1_4b(tiny: bool) -> list[Question]:
    """Ask about a model of middle size."""
    return _questions(PYTHIA_1_4B, tiny)


def _questions(shape: Shape, tiny: bool) -> list[Question]:
    device, shape = ("cpu", TINY._replace(name=shape.name)) if tiny else ("cuda", shape)
    questions = [
        Question(f"rows from memory, {dtype}", partial(ranked, device, shape, dtype))
        for dtype in ("bfloat16", "float32")
    ]
    return [*questions, Question("the whole call, bfloat16", partial(_whole, device, shape))]


def ranked(device: str, shape: Shape, dtype: str) -> dict[str, Any]:
    """Time ranking rows from memory: the backbone alone, the plain way, and ours; with each one's peak memory in MB.

    operations_per_second: ours, 2 · S and 2 · V · d for each token, as a plan counts them; parameters: S.
    """
    model = random_model(shape, device, dtype)
    language = LanguageModel(  # as `load_model` gives it, without files
        shape.name, model, non_embedding_params(model), shape.vocabulary, cast(Dtype, dtype), torch.device(device)
    )
    ids = torch.randint(0, shape.vocabulary, (shape.documents, LENGTH), generator=torch.Generator().manual_seed(0))
    scored = np.arange(1, LENGTH)
    rows = [Row(i, 0, line, scored) for i, line in enumerate(ids.numpy())]
    ranker, device_ids = Ranker(language, "auto", BATCH), ids.to(device)
    ways: dict[str, Callable[[], object]] = {
        BACKBONE: partial(_backbone, language, device_ids),
        PLAINLY: partial(_plainly, language, device_ids),
        "ours: ranks": partial(ranker.rank, rows),
    }
    seconds = in_turn(ways, 2, device, most=10.0)
    tokens = shape.documents * (LENGTH - 1)
    measured_rows = _rows(seconds, tokens, BACKBONE)
    if device == "cuda":
        measured_rows = [row | {"peak_mb": _peak(ways[row["way"]])} for row in measured_rows]
    operations = 2 * (language.size + shape.vocabulary * shape.d) * measured_rows[-1]["tokens_per_second"]
    about = {"dtype": dtype, "tokens": tokens, "parameters": language.size, "operations_per_second": operations}
    return about | {"reference": BACKBONE, "rows": measured_rows}


def random_model(shape: Shape, device: str, dtype: str) -> Any:
    """Make the model, its weights drawn on the device."""
    from transformers import AutoModelForCausalLM, GPTNeoXConfig  # late: slow to import

    config = GPTNeoXConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.d,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()


def _whole(device: str, shape: Shape) -> dict[str, Any]:
    """Time the way from a model's files and text to a store, and the plain way to ranks in memory: all included."""
    from bench import extraction  # late: it imports what a bare machine need not have

    with TemporaryDirectory() as folder:
        ours = extraction.Extraction(*extraction.make(Path(folder), shape, device), shape.documents, device)
        ways = {PLAINLY: partial(_plainly_from_files, ours), extraction.WHOLE: ours.run}
        seconds = in_turn(ways, 1, device)
    tokens = shape.documents * (LENGTH - 1)
    return {"tokens": tokens, "reference": PLAINLY, "rows": _rows(seconds, tokens, PLAINLY)}


def _rows(seconds: dict[str, list[float]], tokens: int, reference: str) -> list[dict[str, Any]]:
    return [
        {"way": name, "tokens_per_second": tokens / median(times)} | spread(times, seconds[reference])
        for name, times in seconds.items()
    ]


def _plainly_from_files(ours: Any) -> None:
    backbone, _ = ours.reference()
    _plainly(backbone.language, backbone.ids)


def _backbone(language: LanguageModel, ids: torch.Tensor) -> None:
    with torch.inference_mode():
        for part in ids.split(BATCH):
            language.model.base_model(input_ids=part, use_cache=False)


def _plainly(language: LanguageModel, ids: torch.Tensor) -> None:
    head = language.model.get_output_embeddings().weight
    with torch.inference_mode():
        for part in ids.split(PLAIN):
            hidden = language.model.base_model(input_ids=part, use_cache=False)[0]
            plain(hidden[:, :-1].flatten(0, 1), head, part[:, 1:].flatten()).cpu()


def _peak(way: Callable[[], object]) -> float:
    """Return the peak memory, in MB, of tensors while `way` runs, the model's own included."""
    torch.cuda.reset_peak_memory_stats()
    way()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e6
