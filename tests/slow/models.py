"""Survey what can be ranked: architectures, adapters, GGUF files and tokenizers, a line each.

    python tests/slow/models.py [--to FILE] [NAME ...]

NAME: architectures, adapters, ggufs, tokenizers, or a case of one of them; all if none. A whole survey of architectures
is written as the table that the book shows. Exits 1 if one case is wrong, or fewer are exact than LEAST.
"""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch is imported

import pandas as pd  # noqa: E402
import transformers  # noqa: E402
from adapters import kinds, survey_adapter  # noqa: E402
from cuts import KINDS, survey_tokenizer  # noqa: E402
from ggufs import CASES, survey_file  # noqa: E402
from survey import FAMILIES, VARIANTS, survey  # noqa: E402

from companion.chapters.appendix.ranking import FOLDER  # noqa: E402
from rbp.io import write_file  # noqa: E402

LEAST = {"architectures": 60, "adapters": 33, "ggufs": 20, "tokenizers": 12}
CASES_OF: dict[str, list[tuple[str, Callable[[Path], Any]]]] = {
    "architectures": [
        (family, partial(survey, family, variant=variant, **own))
        for family, variant, own in [(name, "", {}) for name in FAMILIES] + VARIANTS
    ],
    "adapters": [(kind, partial(survey_adapter, kind)) for kind in kinds()],
    "ggufs": [(name, partial(survey_file, name)) for name in CASES],
    "tokenizers": [(kind, partial(survey_tokenizer, kind)) for kind in KINDS],
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
