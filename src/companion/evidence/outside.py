"""Read measurements by others in data/outside, checked file by file (its README describes each column).

Training runs with the share of first guesses (RBP_1); models of images with RBP_1 and RBP_5; and tries at problems,
which are no ranks. The first guesses of LAMBADA are whole words: a sequence event, not RBP_1.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa
from scipy.special import gammaln

from companion.evidence import published
from companion.project import DATA
from rbp.arrays import Reals
from rbp.measurements.parts import Part
from rbp.measurements.sources import Named
from rbp.tables import COUNT, COUNT_FROM_0, NAME, NOT_NEGATIVE, POSITIVE, SHARE, among, checked, read_csv

FOLDER = DATA / "outside"
_REMEDY = "Restore the file: git checkout -- data/outside."
#: the vocabulary of the xLSTM runs, GPT-NeoX's padded; input and output embeddings are apart
VOCABULARY = 50_304

_MAY_LACK = pa.Column("Int64", NOT_NEGATIVE, nullable=True)


def xlstm_runs() -> pd.DataFrame:
    """Read the runs of *xLSTM Scaling Laws* (arXiv:2510.02228) at their end, including diverged ones.

    Columns run, architecture (Llama, mLSTM), sweep, size (S, without embeddings), parameters, layers, width, context,
    batch, steps, training_tokens, loss (nats per token), accuracy (RBP_1), diverged. A run has diverged if its loss
    lies above ln V of a vocabulary of 1 000, that is 6.9 nats: no other run comes near it.
    """
    counts = ("parameters", "layers", "width", "context", "batch", "steps", "training_tokens")
    columns = {"run": NAME, "architecture": NAME, "sweep": NAME} | dict.fromkeys(counts, COUNT)
    columns |= {"loss": POSITIVE, "accuracy": SHARE}
    adds_up = pa.Check(
        lambda t: t["steps"] * t["batch"] * t["context"] == t["training_tokens"],
        error="training_tokens is not steps × batch × context",
    )
    table = _read("xlstm_runs.csv", columns, ["run"], adds_up)
    table.insert(3, "size", table["parameters"] - 2 * VOCABULARY * table["width"])
    return table.assign(diverged=table["loss"] > np.log(1000))


def lambada() -> pd.DataFrame:
    """Read LAMBADA's accuracy, a whole word by greedy decoding: Pythia's snapshots (EleutherAI/pythia), OPT and BLOOM.

    Columns family ("Pythia", "Pythia deduped", "Pythia bf16", "OPT", "BLOOM"), model, shots and step (Int64; missing
    for OPT and BLOOM, measured once, at their end), task, accuracy, accuracy_se, perplexity (of the word), file.
    """
    columns = {"family": NAME, "model": NAME, "shots": _MAY_LACK, "step": _MAY_LACK, "task": NAME}
    columns |= {"accuracy": SHARE, "accuracy_se": SHARE, "perplexity": POSITIVE, "file": NAME}
    return _read("lambada.csv", columns, ["family", "model", "shots", "step", "task"])


def measurements() -> pd.DataFrame:
    """Return the xLSTM runs that did not diverge as a measurement table: −ln RBP_1 and cross-entropy on DCLM.

    A run is a model, an architecture a family; the source is the sweep. Runs differ in their training tokens as in
    their size: a line in S through all of them mixes the two.
    """
    runs = xlstm_runs().query("~diverged")
    named = runs.rename(columns={"run": "model", "architecture": "family", "sweep": "source"}).assign(dataset="dclm")
    rank = named.assign(metric="neg_log_rbp", k=1, value=-np.log(named["accuracy"]))
    table = pd.concat([rank, named.assign(metric="cross_entropy", value=named["loss"])])
    return _as_table(table.rename(columns={"steps": "step"}))


# ── Models of images: RBP_1 and RBP_5 among 1 000 classes

#: test sets, and how many pictures each has: the counts of which all shares there are rounded values
PICTURES = {"imagenet": 50_000, "imagenetv2-matched-frequency": 10_000, "sketch": 50_889}
#: as PICTURES, of the sets that data/predictions/images.toml forecast before anybody here had looked at them
BLIND_PICTURES = {"imagenet-real": 46_837, "imagenet-r": 30_000, "imagenet-a": 7_500}
#: LeViT's five models come twice, the second time with this name: the same weights, so they count once
_TWIN_NAME = "levit_conv_"
TOP = (1, 5)
#: words of an architecture's name that say how large a model is
_SIZE_WORD = re.compile(
    r"x{0,3}[slb]|[tmhge]|zepto|atto|femto|pico|nano|x{0,2}tiny|mini|pwee|wee|little|small|mediumd?|betwixt|base|big"
    r"|x{0,2}large|huge|giant|gigantic|enormous|[a-oq-z]{0,2}\d+[a-z]{0,2}"
)
_DEPTH = re.compile(r"\d{2,}[a-z]?$")


def image_family(model: str, pixels: int) -> str:
    """Name the family of an image model: its series, its recipe and the pixels at which it was tested.

    model: such as "convnext_tiny.fb_in1k", whose recipe follows the point. The series is what comes before, without the
    words, between underscores, that say how large a model is (tiny, b0, 18, m36, 224), and without a number of two
    digits or more at the end of the first (resnet50). Sizes of patches (patch16, p8) and windows stay.
    """
    series, _, recipe = model.partition(".")
    first, *others = series.split("_")
    words = [_DEPTH.sub("", first), *(word for word in others if not _SIZE_WORD.fullmatch(word))]
    return f"{'_'.join(words)}.{recipe}@{pixels}"


def image_models() -> pd.DataFrame:
    """Read `read_image_models` of PICTURES: accuracies on three test sets (huggingface/pytorch-image-models)."""
    return read_image_models(FOLDER / "image_models.csv", PICTURES, _REMEDY)


def blind_image_models() -> pd.DataFrame:
    """Read `read_image_models` of BLIND_PICTURES: the same models on the three test sets that were forecast."""
    return read_image_models(FOLDER / "image_models_blind.csv", BLIND_PICTURES, _REMEDY)


def read_image_models(path: Path, datasets: Iterable[str], remedy: str) -> pd.DataFrame:
    """Read a file of image models.

    Columns dataset (one of these), model, param_count (millions), img_size (pixels a side), top1, top5 (per cent), and
    family (`image_family`). Raises DataError, with the remedy.
    """
    percent = pa.Column("float64", pa.Check.in_range(0, 100, error="must lie between 0 and 100"))
    columns = {"dataset": among([*datasets]), "model": NAME, "param_count": POSITIVE, "img_size": COUNT}
    columns |= {"top1": percent, "top5": percent}
    nested = pa.Check(lambda t: t["top1"] <= t["top5"], error="top1 is above top5")
    schema = pa.DataFrameSchema(columns, nested)
    table = checked(read_csv(path), schema, path, keys=["dataset", "model", "img_size"], remedy=remedy)
    families = [image_family(*model) for model in zip(table["model"], table["img_size"], strict=True)]
    return table.assign(family=families)


def images() -> pd.DataFrame:
    """Return all image models as a measurement table: −ln RBP_1 and −ln RBP_5, with how many pictures were hit.

    A model at another resolution counts as another model, model@pixels; a model listed under two names counts once. The
    size is all parameters: there are no embeddings of tokens.
    """
    models = pd.concat([image_models(), blind_image_models()])
    models = models[~models["model"].str.startswith(_TWIN_NAME)]
    named = models.assign(
        model=models["model"] + "@" + models["img_size"].astype(str),
        size=(models["param_count"] * 1e6).round().astype("int64"),
        tokens=models["dataset"].map(PICTURES | BLIND_PICTURES),
        metric="neg_log_rbp",
        source="pytorch-image-models",
    )
    parts = [named.assign(k=k, hits=(named[f"top{k}"] / 100 * named["tokens"]).round()) for k in TOP]
    table = pd.concat(parts).query("hits > 0")
    return _as_table(table.assign(value=-np.log(table["hits"] / table["tokens"])))


# ── Tries at problems: −ln pass@k, whose k counts tries and is no threshold of ranks

#: numbers of tries at which pass@k is known for every problem: none was tried less than 128 times
TRIES = (1, 2, 5, 10, 20, 50, 100)
PROBLEMS = 128


def problem_tries() -> pd.DataFrame:
    """Read Pythia's tries at problems of MATH (arXiv:2502.17578): how many of how many samples were right.

    Columns model, training_tokens ("300B"), prompt, level, samples, correct.
    """
    columns = {"model": NAME, "training_tokens": NAME, "prompt": COUNT_FROM_0, "level": NAME}
    columns |= {"samples": COUNT, "correct": COUNT_FROM_0}
    fewer = pa.Check(lambda t: t["correct"] <= t["samples"], error="more were right than were tried")
    return _read("pythia_math_tries.csv", columns, ["model", "training_tokens", "prompt"], fewer)


def pass_at(k: int, samples: pd.Series, correct: pd.Series) -> Reals:
    """Compute pass@k of each problem, 1 − C(n − c, k)/C(n, k) (Chen et al. 2021), shape (problems,); NaN for n < k."""
    n, c = samples.to_numpy(np.float64), correct.to_numpy(np.float64)
    with np.errstate(invalid="ignore"):
        none = gammaln(n - c + 1) - gammaln(n - c - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)
    rates: Reals = np.where(n < k, np.nan, np.where(n - c < k, 1.0, -np.expm1(none)))
    return rates


def tries() -> pd.DataFrame:
    """Return `problem_tries` as a measurement table: −ln of the mean pass@k over the problems, at TRIES.

    The pass@k of a problem is unknown beyond its number of samples, which is not random: problems were tried until some
    samples were right. So only k that all problems reach are included. A model after another number of training tokens
    counts as another model of another family; models that were not tried at all PROBLEMS, or solved none, are left out.
    The size is S, without embeddings.
    """
    models = {row["name"]: row for row in published.models().to_dict("records")}
    rows = []
    for (model, trained), problems in problem_tries().groupby(["model", "training_tokens"]):
        if len(problems) < PROBLEMS or not problems["correct"].any():
            continue
        details = models[str(model)]
        labels = {"dataset": "math", "model": f"{details['model']}@{trained}", "family": f"Pythia at {trained}"}
        labels |= {"size": details["non_embedding_params"], "metric": "neg_log_pass", "source": "monkeys"}
        means = {k: pass_at(k, problems["samples"], problems["correct"]).mean() for k in TRIES}
        rows += [labels | {"k": k, "value": -np.log(mean)} for k, mean in means.items()]
    return _as_table(pd.DataFrame(rows))


_COLUMNS = ["dataset", "model", "family", "size", "metric", "k", "value", "tokens", "hits", "source"]
_COLUMNS += ["training_tokens", "step"]


def _as_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Complete the columns of the measurement table; unknown values are missing."""
    return rows.reindex(columns=_COLUMNS).astype({"size": "int64", "k": "Int64"}).reset_index(drop=True)


def _read(name: str, columns: dict[str, pa.Column], keys: Sequence[str], *checks: pa.Check) -> pd.DataFrame:
    path = FOLDER / name
    return checked(read_csv(path), pa.DataFrameSchema(columns, list(checks)), path, keys=keys, remedy=_REMEDY)


@dataclass(frozen=True)
class _Outside(Part):
    """One of the files of others' measurements."""

    read: Callable[[], pd.DataFrame]

    def table(self) -> pd.DataFrame:
        """Return the file's measurements."""
        return self.read()

    @staticmethod
    def split_by_checkpoint(table: pd.DataFrame) -> pd.DataFrame:
        """Return the table unchanged: few of its runs share their training tokens."""
        return table


def _named(description: str, read: Callable[[], pd.DataFrame]) -> Named:
    return Named(description, lambda word, rule: _Outside(word, (FOLDER,), read))


SOURCES = {
    "outside": _named("training runs by others", measurements),
    "images": _named("models of images by others: top-1 and top-5 accuracy", images),
    "tries": _named("Pythia's tries at problems, by others: pass@k, no ranks", tries),
}
