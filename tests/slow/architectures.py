"""Survey every causal architecture that transformers knows, and write the table that the book shows.

    python tests/slow/architectures.py [--to FILE] [FAMILY ...]

Exits 1 if a rank is not that of the model's own logits.
"""

import argparse
import os
import sys
import tempfile
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch is imported

import pandas as pd  # noqa: E402
import transformers  # noqa: E402
from survey import FAMILIES, VARIANTS, Outcome, survey  # noqa: E402

from companion.chapters.appendix.ranking import FOLDER  # noqa: E402
from rbp.io import write_file  # noqa: E402


def main() -> None:
    """Each family by its default configuration, then the variants."""
    parser = argparse.ArgumentParser(description="Survey the causal architectures of transformers.")
    parser.add_argument("families", nargs="*", help="only these; then nothing is written unless --to is given")
    parser.add_argument("--to", type=Path, help="where the table goes; default: data/faults/architectures.csv")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = [(name, "", {}) for name in FAMILIES] + VARIANTS
    found: list[Outcome] = []
    for family, variant, own in wanted:
        if chosen.families and family not in chosen.families:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found.append(survey(family, Path(folder), variant, **own))
        sys.stdout.write(f"{' | '.join(map(str, found[-1]))}\n")
        sys.stdout.flush()
    table = pd.DataFrame(found).assign(transformers=transformers.__version__)
    path = chosen.to or (None if chosen.families else FOLDER / "architectures.csv")
    if path is not None:
        write_file(path, table.to_csv(index=False))
    sys.exit(1 if (table["outcome"] == "wrong").any() else 0)


if __name__ == "__main__":
    main()
