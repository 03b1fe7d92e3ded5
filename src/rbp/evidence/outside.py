"""Read the measurements by others in data/outside, checked file by file (what each column is, see the README there).

None holds RBP_k for k above 1. The first guesses of LAMBADA are whole words: a sequence event, not RBP_1.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa

from rbp.core.paths import DATA
from rbp.core.tables import checked, read_csv

FOLDER = DATA / "outside"
#: the vocabulary of the xLSTM runs, GPT-NeoX's padded; input and output embeddings are apart
VOCABULARY = 50_304
#: losses of OpenLM's runs, by validation text
OPENLM_LOSSES = (
    "openlm",
    "c4",
    "paloma_c4",
    "paloma_code",
    "paloma_refinedweb",
    "paloma_ptb",
    "paloma_redpajama",
    "german_english",
)

_NAME = pa.Column("str")
_COUNT = pa.Column("int64", pa.Check.ge(1, error="must be at least 1"))
_LOSS = pa.Column("float64", pa.Check.gt(0, error="must be above 0"))
_SHARE = pa.Column("float64", pa.Check.in_range(0, 1, error="must lie between 0 and 1"))
_MAY_LACK = pa.Column("Int64", pa.Check.ge(0, error="must not be negative"), nullable=True)


def xlstm_runs(folder: Path | None = None) -> pd.DataFrame:
    """The runs of *xLSTM Scaling Laws* (arXiv:2510.02228) at their end, diverged ones among them.

    Columns run, architecture (Llama, mLSTM), sweep, size (S, without embeddings), parameters, layers, width, context,
    batch, steps, training_tokens, loss (nats per token), accuracy (RBP_1), diverged. A run has diverged if its loss
    lies above ln V of a vocabulary of 1 000, that is 6.9 nats: no other run comes near it.
    """
    counts = ("parameters", "layers", "width", "context", "batch", "steps", "training_tokens")
    columns = {"run": _NAME, "architecture": _NAME, "sweep": _NAME} | dict.fromkeys(counts, _COUNT)
    columns |= {"loss": _LOSS, "accuracy": _SHARE}
    adds_up = pa.Check(
        lambda t: t["steps"] * t["batch"] * t["context"] == t["training_tokens"],
        error="training_tokens is not steps × batch × context",
    )
    table = _read(folder, "xlstm_runs.csv", columns, ["run"], adds_up)
    table.insert(3, "size", table["parameters"] - 2 * VOCABULARY * table["width"])
    return table.assign(diverged=table["loss"] > np.log(1000))


def lambada(folder: Path | None = None) -> pd.DataFrame:
    """LAMBADA's accuracy, a whole word by greedy decoding: Pythia's snapshots (EleutherAI/pythia), OPT and BLOOM.

    Columns family ("Pythia", "Pythia deduped", "Pythia bf16", "OPT", "BLOOM"), model, shots and step (Int64; missing
    for OPT and BLOOM, measured once, at their end), task, accuracy, accuracy_se, perplexity (of the word), file.
    """
    columns = {"family": _NAME, "model": _NAME, "shots": _MAY_LACK, "step": _MAY_LACK, "task": _NAME}
    columns |= {"accuracy": _SHARE, "accuracy_se": _SHARE, "perplexity": _LOSS, "file": _NAME}
    return _read(folder, "lambada.csv", columns, ["family", "model", "shots", "step", "task"])


def openlm(folder: Path | None = None) -> pd.DataFrame:
    """OpenLM's runs (arXiv:2403.08540): three training sets over sizes and tokens per parameter.

    Columns model, training_set, size (S, without embeddings), parameters, training_tokens, chinchilla_multiplier
    (tokens per parameter over 20), loss_* (nats per token, by `OPENLM_LOSSES`), lambada_openai (accuracy).
    """
    columns = {"model": _NAME, "training_set": _NAME} | dict.fromkeys(("size", "parameters", "training_tokens"), _COUNT)
    columns |= {"chinchilla_multiplier": _LOSS} | {f"loss_{text}": _LOSS for text in OPENLM_LOSSES}
    return _read(folder, "openlm.csv", columns | {"lambada_openai": _SHARE}, ["model"])


def measurements(folder: Path | None = None) -> pd.DataFrame:
    """The xLSTM runs that did not diverge, as rows of the measurement table: −ln RBP_1 and cross-entropy on DCLM.

    A run is a model, an architecture a family; the source is the sweep. Runs differ in their training tokens as in
    their size: a line in S through all of them mixes the two.
    """
    runs = xlstm_runs(folder).query("~diverged")
    named = runs.rename(columns={"run": "model", "architecture": "family", "sweep": "source"}).assign(dataset="dclm")
    rank = named.assign(metric="neg_log_rbp", k=1, value=-np.log(named["accuracy"]))
    table = pd.concat([rank, named.assign(metric="cross_entropy", value=named["loss"])])
    columns = ["dataset", "model", "family", "size", "metric", "k", "value", "source", "training_tokens", "step"]
    return table.rename(columns={"steps": "step"})[columns].astype({"k": "Int64"}).assign(tokens=np.nan, hits=np.nan)


def _read(
    folder: Path | None, name: str, columns: dict[str, pa.Column], keys: Sequence[str], *checks: pa.Check
) -> pd.DataFrame:
    path = (folder or FOLDER) / name
    remedy = "Restore the file: git checkout -- data/outside."
    return checked(read_csv(path), pa.DataFrameSchema(columns, list(checks)), path, keys=keys, remedy=remedy)
