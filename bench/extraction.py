"""`python -m bench.extraction`: what a whole extraction costs beside the time that the model itself needs.

A model of Pythia-14M's shape on the CPU, of Pythia-1.4B's on a GPU, with random weights, reads documents of random
words. The time allowed is that of the backbone on the same rows and, on the CPU, of the bare product of its hidden
states with the output layer: of each, the fastest way that was found. On a GPU it is the backbone's alone. Three times
are ours: the whole call, from the model's files to the finished store; of it the packs alone, that is, ranking and
storing; and the check, which ranks a sample again the plain way. All ways run once a round, in turn.
"""

import json
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from bench.common import Results, circumstances, in_turn, report, spread
from bench.gpu_models import LENGTH, PYTHIA_1_4B, Shape, random_model
from bench.ranking import Way, chunks, tiles
from ladder.text import byte_level_bpe
from rbp.extract.corpora import open_corpus
from rbp.extract.extraction import Settings, extract, quiet
from rbp.extract.models import LanguageModel, find_model, load_model, load_tokenizer
from rbp.extract.protocol import plan_rows, protocol
from rbp.extract.store import Store

VOCABULARY = 1000  # of the tokenizer
WHOLE, PACKS = "ours: the whole call", "ours: its packs, ranked and stored"
CHECK = "ours: its check of a sample"


SHAPES = {"cpu": Shape("Pythia-14M", 6, 128, 4, 512, 50304, 128), "cuda": PYTHIA_1_4B._replace(documents=512)}


def make(folder: Path, shape: Shape, device: str) -> tuple[Path, Path]:
    """Write a model with random weights and its tokenizer, and a corpus of random words; gives their places.

    The weights are float32, and bfloat16 for a GPU.
    """
    draw = random.Random(0)  # noqa: S311
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(5000)]
    texts = [" ".join(draw.choices(words, k=LENGTH)) for _ in range(shape.documents)]  # at least a token a word
    model, corpus = folder / shape.name, folder / "words.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    byte_level_bpe(texts[:32], min(VOCABULARY, shape.vocabulary)).save_pretrained(model)
    with quiet():
        random_model(shape, device, "bfloat16" if device == "cuda" else "float32").save_pretrained(model)
    return model, corpus


class Backbone(NamedTuple):
    """The backbone on documents ids [N, LENGTH]."""

    language: LanguageModel
    ids: torch.Tensor

    def batches(self, rows: int) -> Callable[[], object]:
        """Read some rows at a time."""
        return lambda: [self._run(part) for part in self.ids.split(rows)]

    def side_by_side(self) -> None:
        """Read a row at a time on each thread."""
        _side_by_side(self._run, self.ids.split(1))

    def _run(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            hidden: torch.Tensor = self.language.model.base_model(input_ids=ids, use_cache=False)[0]
        return hidden


class Product(NamedTuple):
    """The bare product of hidden states with the output layer."""

    hidden: torch.Tensor
    weight: torch.Tensor

    def by(self, way: Way) -> Callable[[], object]:
        """Multiply in one of the ways of `bench.ranking`."""
        return lambda: self._run(way, self.hidden)

    def side_by_side(self) -> None:
        """Multiply in tiles, some documents on each thread."""
        _side_by_side(lambda hidden: self._run(tiles, hidden), self.hidden.chunk(torch.get_num_threads()))

    def _run(self, way: Way, hidden: torch.Tensor) -> None:
        with torch.inference_mode():
            way(hidden, self.weight, hidden)  # a bare product looks at no target


def _side_by_side(run: Callable[[torch.Tensor], object], parts: tuple[torch.Tensor, ...]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, parts))
    finally:
        torch.set_num_threads(threads)


class Extraction:
    """The whole extraction, afresh each time; packs, checks: the seconds that each took for these alone."""

    def __init__(self, model: Path, corpus: Path, documents: int, device: str) -> None:
        self.model, self.corpus, self.out = str(model), str(corpus), model.parent / "stores"
        self.protocol = protocol("authors", length=LENGTH, documents=documents)
        self.settings = Settings(dtype="bfloat16" if device == "cuda" else "float32", device=device)
        self.packs: list[float] = []
        self.checks: list[float] = []
        self.checked_tokens = 0

    def run(self) -> None:
        """Extract, note the packs' seconds, and take the store away again."""
        with redirect_stderr(StringIO()):  # the progress
            (folder,) = extract([self.model], [self.corpus], self.protocol, self.out, self.settings)
        manifest = Store(folder).manifest
        self.packs.append(manifest["tokens"] / manifest["about"]["tokens_per_second"])
        self.checks.append(manifest["about"]["check_seconds"])
        self.checked_tokens = manifest["about"]["check"]["tokens"]
        shutil.rmtree(self.out)

    def reference(self) -> tuple[Backbone, int]:
        """Return the backbone with the rows that it reads, and how many tokens are scored."""
        files = find_model(self.model)
        with quiet():
            language = load_model(files, self.settings.dtype, torch.device(self.settings.device))
        planned = plan_rows(open_corpus(self.corpus), load_tokenizer(files), self.protocol)
        ids = torch.stack([torch.from_numpy(row.ids) for row in planned.rows])
        return Backbone(language, ids.to(language.device)), planned.tokens


def measured(device: str, shape: Shape, rounds: int) -> Results:
    """Time every way on `device`; return what is printed, and written as JSON."""
    with TemporaryDirectory() as folder:
        ours = Extraction(*make(Path(folder), shape, device), shape.documents, device)
        backbone, tokens = ours.reference()
        weight = backbone.language.model.get_output_embeddings().weight.detach()
        hidden = torch.randn(tokens, shape.d, device=weight.device, dtype=weight.dtype)
        product = Product(hidden, weight)
        if device == "cpu":
            backbones = {
                "backbone, 8 rows at a time": backbone.batches(8),
                "backbone, a row at a time on each thread": backbone.side_by_side,
            }
            products = {
                "bare product, in our tiles": product.by(tiles),
                "bare product, in our tiles on each thread": product.side_by_side,
                "bare product, 256 rows at a time": product.by(chunks(256)),
            }
        else:
            backbones = {f"backbone, {rows} rows at a time": backbone.batches(rows) for rows in (16, 32, 64)}
            products = {"bare product, 2048 rows at a time": product.by(chunks(2048))}
        seconds = in_turn({**backbones, **products, WHOLE: ours.run}, rounds, device)
    seconds |= {PACKS: ours.packs[1:], CHECK: ours.checks[1:]}
    fastest = [min(ways, key=lambda name: median(seconds[name])) for ways in (backbones, products)]
    allowed = fastest if device == "cpu" else fastest[:1]
    reference = [sum(parts) for parts in zip(*(seconds[name] for name in allowed), strict=True)]
    rows = [
        {"way": name, "tokens_per_second": tokens / median(times)} | spread(times, reference)
        for name, times in {**seconds, "allowed": reference}.items()
    ]
    share = median(check / whole for check, whole in zip(seconds[CHECK], seconds[WHOLE], strict=True))
    about = shape._asdict() | {"tokens": tokens, "allowed": allowed, "rounds": rounds}
    about |= {"tokens_asked_again": ours.checked_tokens, "check_share": share}
    return circumstances(device) | about | {"rows": rows}


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    report(lambda rounds: measured(device, SHAPES[device], rounds), __doc__ or "")
