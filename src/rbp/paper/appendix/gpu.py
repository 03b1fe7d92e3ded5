"""What `make gpu` found on a machine with a GPU, if it was run on one."""

import json
from pathlib import Path
from typing import Any

from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.core.paths import ROOT, label

GPU = ROOT / "bench" / "results" / "gpu.json"
AIMS = {(768, 50304): 1.3, (4096, 128256): 1.05}  # ranks in bfloat16 take at most so many times the bare product

Found = dict[str, Any]


def read_gpu(path: Path = GPU) -> Found | None:
    """What `bench.gpu` wrote: device, date, versions, and parts by name; None if it has not been run.

    A part has answers, a list of what was found for each of its questions, and left: the questions without an answer.
    Raises DataError for another file, and for one that Triton's interpreter made: it holds no figures of a GPU.
    """
    if not path.exists():
        return None
    provenance.note(path)
    try:
        found: Found = json.loads(path.read_bytes())
        interpreter, parts = found["interpreter"], found["parts"]
        _ = found["device"] + found["date"], [a["question"] for part in parts.values() for a in part["answers"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("this is no result of make gpu", label(path), "Write it again: make gpu.") from None
    if interpreter:
        raise DataError("these figures are the interpreter's, not a GPU's", label(path), "Remove the file.")
    return found


def worked(part: Found | None) -> bool:
    """Whether a part has all its answers, and nothing was found that must not be."""
    if part is None or "error" in part or part.get("left"):
        return False
    return not any(map(failure, part["answers"]))


def failure(answer: Found) -> str | None:
    """Why a question has no answer, or what was found that must not be; None if all is well."""
    return answer.get("error") or "; ".join(answer.get("failed") or []) or None


def aim_of(row: Found) -> float | None:
    """What the ratio of a row of the ranking's benchmark should not exceed; None for others than ours in bfloat16."""
    ours = row["way"].startswith("ours") and row["dtype"] == "bfloat16"
    return AIMS.get((row["d"], row["vocabulary"])) if ours else None


def rate_of(run: Found, dtype: str) -> float | None:
    """Floating-point operations a second of ranking with a whole model in `dtype`, the largest that was measured.

    They are those that a plan counts: 2 · S and 2 · V · d for each token. None if there is no such figure. Raises
    DataError for a malformed one.
    """
    answers = [answer for part in run["parts"].values() for answer in part["answers"]]
    try:
        rates = [
            (int(answer["parameters"]), float(answer["operations_per_second"]))
            for answer in answers
            if "operations_per_second" in answer and answer["dtype"] == dtype and not failure(answer)
        ]
    except (ValueError, KeyError, TypeError):
        raise DataError("a rate of make gpu's is malformed", label(GPU), "Write it again: make gpu.") from None
    return max(rates)[1] if rates else None
