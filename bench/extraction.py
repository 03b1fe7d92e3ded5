"""`python -m bench.extraction`: whole models of random weights rank, against the plain way and the backbone alone.

The plain way ranks all logits of some rows by one comparison. Rows of random tokens are ranked from memory; the whole
call reads a model's files and a text, checks, and writes a store. It is also taken apart: what it spends in each
function that it calls. A model of Pythia-14M's shape runs on the CPU, larger ones as a part of `bench.gpu`.
"""

import cProfile
import json
import pstats
import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from bench.common import Question, Results, circumstances, in_turn, peak_on_gpu, report, spread
from rbp.choices import Dtype
from rbp.extract.forward import Ranker
from rbp.models.load import LanguageModel
from rbp.models.sizes import non_embedding_params
from rbp.texts.protocol import Row

LENGTH = 512  # tokens of a row: the authors' protocol
BATCH = 32  # rows at a time, the default of `rbp extract` on a GPU
PLAIN = 8  # rows at a time whose logits are stored whole
LONG = 32768  # tokens of a long row
VOCABULARY = 1000  # of the tokenizer
BACKBONE, PLAINLY = "backbone alone", "plain way: logits, a comparison"
RANKS, WHOLE = "ours: ranks", "ours: the whole call"


class Shape(NamedTuple):
    """A GPT-NeoX model, and how many documents it reads."""

    name: str
    layers: int
    d: int
    heads: int
    intermediate: int
    vocabulary: int
    documents: int


PYTHIA_14M = Shape("Pythia-14M", 6, 128, 4, 512, 50304, 128)
PYTHIA_70M = Shape("Pythia-70M", 6, 512, 8, 2048, 50304, 64)  # what is around the model costs most
PYTHIA_1_4B = Shape("Pythia-1.4B", 24, 2048, 16, 8192, 50304, 64)
TINY = Shape("a tiny model", 2, 32, 2, 64, 512, 6)
MORE = 10  # times as many documents for a longer call


def part(tiny: bool) -> list[Question]:
    """List what is asked about two models on a GPU, as a part of `bench.gpu`; tiny: about a tiny one on the CPU."""
    device, shapes = ("cpu", [TINY]) if tiny else ("cuda", [PYTHIA_70M, PYTHIA_1_4B])

    def whole(shape: Shape) -> Question:
        name = f"{shape.name}, the whole call, bfloat16, {shape.documents * (LENGTH - 1):,} tokens"
        return Question(name, partial(whole_call, shape, device, 1))

    def memory(shape: Shape, dtype: str) -> Question:
        many = shape._replace(documents=512 if shape is PYTHIA_70M else shape.documents)
        return Question(f"{shape.name}, rows from memory, {dtype}", partial(from_memory, many, device, dtype, 2))

    name, length = f"{shapes[0].name}, {LONG:,} tokens of context, bfloat16", 4 * LENGTH if tiny else LONG
    long = Question(name, partial(from_memory, shapes[0]._replace(documents=1), device, "bfloat16", 2, length))
    questions = [*map(whole, shapes), *(memory(shape, dtype) for dtype in ("bfloat16", "float32") for shape in shapes)]
    return [*questions, long, whole(shapes[-1]._replace(documents=MORE * shapes[-1].documents))]


def on_this_cpu(rounds: int) -> Results:
    """Time both ways of ranking; return what is printed, and written as JSON."""
    about = circumstances("cpu") | PYTHIA_14M._asdict() | {"rounds": rounds}
    memory, whole = from_memory(PYTHIA_14M, "cpu", "float32", rounds), whole_call(PYTHIA_14M, "cpu", rounds)
    about |= {name: whole[name] for name in ("tokens", "check_share", "parts")}
    from_files = [row | {"way": f"{row['way']}, from files"} for row in whole["rows"]]
    return about | {"rows": memory["rows"] + from_files}


def from_memory(shape: Shape, device: str, dtype: str, rounds: int, length: int = LENGTH) -> Results:
    """Time ranking rows of `length` tokens from memory: the backbone alone, the plain way, and ours.

    peak_mb: of a GPU's memory, the model's own included; operations_per_second: ours, 2 · S and 2 · V · d for each
    token, as a plan counts them; parameters: S.
    """
    model = random_model(shape, device, dtype, length)
    language = LanguageModel(  # as `load_model` gives it, without files
        shape.name, model, non_embedding_params(model), shape.vocabulary, cast(Dtype, dtype), torch.device(device)
    )
    ids = torch.randint(0, shape.vocabulary, (shape.documents, length), generator=torch.Generator().manual_seed(0))
    scored = np.arange(1, length)
    rows = [Row(i, 0, line, scored) for i, line in enumerate(ids.numpy())]
    ranker, device_ids = Ranker(language, "auto", BATCH), ids.to(device)
    ranker.check(rows)  # as `extract` does: one copy of the model then serves all batches
    ways: dict[str, Callable[[], object]] = {
        BACKBONE: partial(_backbone, language, device_ids),
        PLAINLY: partial(_plainly, language, device_ids),
        RANKS: partial(ranker.rank, rows),
    }
    tokens = ids[:, 1:].numel()
    answer = _answer(in_turn(ways, rounds), tokens, BACKBONE)
    if device == "cuda":
        answer["rows"] = [row | {"peak_mb": peak_on_gpu(ways[row["way"]])} for row in answer["rows"]]
    operations = 2 * (language.size + shape.vocabulary * shape.d) * answer["rows"][-1]["tokens_per_second"]
    return answer | {"dtype": dtype, "parameters": language.size, "operations_per_second": operations}


def whole_call(shape: Shape, device: str, rounds: int) -> Results:
    """Time the way from a model's files and text to a store, and the plain way to ranks in memory: all included.

    check_share: of our time, what the second ranking of a sample takes; parts: see `parts_of`.
    """
    from rbp.choices import Settings
    from rbp.extract.extraction import extract, quiet
    from rbp.models.find import find_model
    from rbp.models.load import load_model, load_tokenizer
    from rbp.store import Store
    from rbp.texts.corpora import open_corpus  # late: they import what a bare machine need not have
    from rbp.texts.protocol import plan_rows, protocol

    settings = Settings(dtype="bfloat16" if device == "cuda" else "float32", device=device)
    reading, checks = protocol("authors", length=LENGTH, documents=shape.documents), list[float]()

    def plainly() -> None:
        files = find_model(str(model))
        with quiet():
            language = load_model(files, settings.dtype, torch.device(device))
        planned = plan_rows(open_corpus(str(corpus)), load_tokenizer(files), reading)
        _plainly(language, torch.stack([torch.from_numpy(row.ids) for row in planned.rows]).to(device))

    def ours() -> None:
        with redirect_stderr(StringIO()):  # the progress
            (store,) = extract([str(model)], [str(corpus)], reading, model.parent / "stores", settings)
        checks.append(Store(store).manifest["about"]["check_seconds"])
        shutil.rmtree(model.parent / "stores")

    with TemporaryDirectory() as folder:
        model, corpus = write_model_and_text(Path(folder), shape, device)
        seconds = in_turn({PLAINLY: plainly, WHOLE: ours}, rounds)
        parts = parts_of(ours)
    share = median(check / whole for check, whole in zip(checks[1:-1], seconds[WHOLE], strict=True))
    return _answer(seconds, shape.documents * (LENGTH - 1), PLAINLY) | {"check_share": share, "parts": parts}


def parts_of(call: Callable[[], object]) -> dict[str, float]:
    """Return the seconds that `rbp.extract.extraction` and `packs` spend in each function of another module.

    In one more call, which the profiler slows down; what takes less than 1% is summed up. On a GPU whoever waits is
    charged for the work.
    """
    from rbp.extract import extraction, packs

    profile, parts, own = cProfile.Profile(), dict[str, float](), {extraction.__file__, packs.__file__}
    profile.runcall(call)
    stats = pstats.Stats(profile)
    for (file, _, name), (*_, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if file not in own:
            seconds = sum(times[3] for (caller, *_), times in callers.items() if caller in own)
            label = f"{Path(file).stem}.{name}"
            parts[label] = parts.get(label, 0.0) + seconds
    total = stats.total_tt  # type: ignore[attr-defined]
    large = {name: seconds for name, seconds in parts.items() if seconds >= total / 100}
    return dict(sorted(large.items(), key=lambda part: -part[1])) | {"the rest": max(0.0, total - sum(large.values()))}


def write_model_and_text(folder: Path, shape: Shape, device: str) -> tuple[Path, Path]:
    """Write a model with random weights and its tokenizer, and a corpus of random words; gives their places.

    The weights are float32, and bfloat16 for a GPU.
    """
    from ladder.text import byte_level_bpe  # late: see above
    from rbp.extract.extraction import quiet

    draw = random.Random(0)  # noqa: S311
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(5000)]
    texts = [" ".join(draw.choices(words, k=LENGTH)) for _ in range(shape.documents)]  # at least a token a word
    model, corpus = folder / shape.name, folder / "words.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    byte_level_bpe(texts[:32], min(VOCABULARY, shape.vocabulary)).save_pretrained(model)
    with quiet():
        random_model(shape, device, "bfloat16" if device == "cuda" else "float32").save_pretrained(model)
    return model, corpus


def random_model(shape: Shape, device: str, dtype: str, positions: int = 2048) -> Any:
    """Make the model, its weights drawn on the device."""
    from transformers import AutoModelForCausalLM, GPTNeoXConfig  # late: slow to import

    config = GPTNeoXConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.d,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=max(2048, positions),
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()


def _answer(seconds: dict[str, list[float]], tokens: int, reference: str) -> Results:
    rows = [
        {"way": name, "tokens_per_second": tokens / median(times)} | spread(times, seconds[reference])
        for name, times in seconds.items()
    ]
    return {"tokens": tokens, "reference": reference, "rows": rows}


def _backbone(language: LanguageModel, ids: torch.Tensor) -> None:
    with torch.inference_mode():
        for rows in ids.split(BATCH):
            language.model.base_model(input_ids=rows, use_cache=False)


def _plainly(language: LanguageModel, ids: torch.Tensor) -> None:
    with torch.inference_mode():
        for rows in ids.split(PLAIN):
            logits = language.model(input_ids=rows, use_cache=False).logits[:, :-1]
            (logits > logits.gather(2, rows[:, 1:, None])).sum(2).cpu()


if __name__ == "__main__":
    report(on_this_cpu, __doc__ or "")
