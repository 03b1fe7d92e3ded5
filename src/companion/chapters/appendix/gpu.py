"""Read what `make gpu` measured, if it was run on a machine with a GPU."""

import json
from pathlib import Path
from typing import Any

from companion.project import ROOT
from rbp import provenance
from rbp.errors import DataError
from rbp.io import label

GPU = ROOT / "bench" / "results" / "gpu.json"

# What ranks should take at most: times the bare product, by d and V in bfloat16, and at any in float32; by question,
# times the backbone alone or, of whole calls, times the plain way.
PRODUCTS, FLOAT32 = {(768, 50304): 1.6, (4096, 128256): 1.15}, 1.15
MODELS = {
    "Pythia-70M, the whole call, bfloat16, 32,704 tokens": 1.0,
    "Pythia-1.4B, the whole call, bfloat16, 32,704 tokens": 1.4,
    "Pythia-1.4B, the whole call, bfloat16, 327,040 tokens": 1.1,
    "Pythia-70M, rows from memory, bfloat16": 1.5,
    "Pythia-70M, rows from memory, float32": 2.05,
    "Pythia-1.4B, rows from memory, bfloat16": 1.07,
    "Pythia-1.4B, rows from memory, float32": 1.09,
}

Record = dict[str, Any]


def read_gpu(path: Path = GPU) -> Record | None:
    """Read the file of `bench.gpu`: device, date, versions, and parts by name; None if it has not been run.

    A part has answers, one for each of its questions, and left: the questions without an answer.
    Raises DataError for another file, and for one that Triton's interpreter made: it holds no figures of a GPU.
    """
    if not path.exists():
        return None
    provenance.note(path)
    try:
        content: Record = json.loads(path.read_bytes())
        interpreter, parts = content["interpreter"], content["parts"]
        _ = content["device"] + content["date"], [a["question"] for part in parts.values() for a in part["answers"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("this is no result of make gpu", label(path), "Write it again: make gpu.") from None
    if interpreter:
        raise DataError("these figures are the interpreter's, not a GPU's", label(path), "Remove the file.")
    return content


def worked(part: Record | None) -> bool:
    """Return whether a part has all its answers, and no failure."""
    if part is None or "error" in part or part.get("left"):
        return False
    return not any(map(failure, part["answers"]))


def failure(answer: Record) -> str | None:
    """Say why a question has no answer, or which failure it reports; None if all is well."""
    return answer.get("error") or "; ".join(answer.get("failed") or []) or None


def wanted_ratio(question: str, row: Record) -> float | None:
    """Return the most that the ratio of a row of an answer should be; None where nothing is wanted of it."""
    if not row["way"].startswith("ours"):
        return None
    if row.get("dtype") == "float32":
        return FLOAT32
    return PRODUCTS.get((row["d"], row["vocabulary"])) if row.get("dtype") == "bfloat16" else MODELS.get(question)
