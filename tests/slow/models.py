"""Survey what can be ranked: architectures, adapters, GGUF files, tokenizers and a real model, a line each.

    python tests/slow/models.py [--to FILE] [NAME ...]

NAME: architectures, adapters, ggufs, tokenizers, real (its file comes by `make smollm2`), or a case of one of them; all
if none. A whole survey of architectures is written as the table that the book shows. Exits 1 if one case is wrong, or
fewer are exact than LEAST.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(TESTS), str(ROOT / "src")]
os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch is imported

import pandas as pd  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from adapters import Found, kinds, survey_adapter  # noqa: E402
from cuts import KINDS, survey_tokenizer  # noqa: E402
from ggufs import CASES, survey_file  # noqa: E402
from survey import FAMILIES, VARIANTS, survey  # noqa: E402

from companion.chapters.appendix.ranking import FOLDER  # noqa: E402
from rbp.extract.corpora import open_corpus  # noqa: E402
from rbp.extract.extraction import Settings, extract, quiet  # noqa: E402
from rbp.extract.models import find_model, load_model, load_tokenizer  # noqa: E402
from rbp.extract.protocol import protocol  # noqa: E402
from rbp.extract.store import open_store  # noqa: E402
from rbp.io import write_file  # noqa: E402


def survey_real(folder: Path) -> Found:
    """Rank all of HumanEval by SmolLM2's GGUF file, and by a plain script that reads its dequantized weights."""
    files, text = find_model(str(ROOT / REAL)), open_corpus("ladder/humaneval")
    with quiet():
        load_tokenizer(files).save_pretrained(folder / "model")
        load_model(files, "float32", torch.device("cpu")).model.save_pretrained(folder / "model")
    lines = "".join(json.dumps({"text": document}) + "\n" for document in text.documents)
    (folder / "text.jsonl").write_text(lines, encoding="utf-8")
    plain = [sys.executable, "-m", "bench.plain", str(folder / "model"), str(folder / "text.jsonl"), str(10**9)]
    shares = map(float, subprocess.check_output(plain, cwd=ROOT, text=True).split())
    (store,) = extract([files], [text], protocol("windows", length=512, context=1), folder, Settings(device="cpu"))
    greater = open_store(store).ranks()["greater"].to_numpy()
    reason = "; ".join(
        f"RBP_{k} of {len(greater):,} tokens is {(greater < k).mean():.5f}, plainly {share:.5f}"
        for k, share in zip((1, 10), shares, strict=True)
        if abs((greater < k).mean() - share) > 1e-4  # some ranks differ by rounding
    )
    return Found("SmolLM2", "wrong" if reason else "exact", reason)


REAL = "runs/models/SmolLM2-135M-Instruct.Q4_1.gguf"
LEAST = {"architectures": 60, "adapters": 33, "ggufs": 20, "tokenizers": 12, "real": 1}
CASES_OF: dict[str, list[tuple[str, Callable[[Path], Any]]]] = {
    "architectures": [
        (family, partial(survey, family, variant=variant, **own))
        for family, variant, own in [(name, "", {}) for name in FAMILIES] + VARIANTS
    ],
    "adapters": [(kind, partial(survey_adapter, kind)) for kind in kinds()],
    "ggufs": [(name, partial(survey_file, name)) for name in CASES],
    "tokenizers": [(kind, partial(survey_tokenizer, kind)) for kind in KINDS],
    "real": [("SmolLM2", survey_real)],
}


def main() -> None:
    """Each case in a folder of its own, one after the other."""
    parser = argparse.ArgumentParser(description="Survey what can be ranked.")
    parser.add_argument("names", nargs="*", help="what is surveyed; default: all")
    parser.add_argument("--to", type=Path, help="where the table goes; default: data/faults/architectures.csv")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    for group, cases in CASES_OF.items():
        whole = not chosen.names or group in chosen.names
        found = []
        for name, case in cases:
            if not whole and name not in chosen.names:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found.append(case(folder=Path(folder)))
            sys.stdout.write(f"{group} | {' | '.join(map(str, found[-1]))}\n")
            sys.stdout.flush()
        outcomes = [each.outcome for each in found]
        if found:
            sys.stdout.write(f"{group}: {outcomes.count('exact')} of {len(found)} exact\n")
        failed |= "wrong" in outcomes or (whole and outcomes.count("exact") < LEAST[group])
        if group == "architectures" and (chosen.to or whole):
            table = pd.DataFrame(found).assign(transformers=transformers.__version__)
            write_file(chosen.to or FOLDER / "architectures.csv", table.to_csv(index=False))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
