"""Where the project's folders are: the package is installed from its checkout, beside the data and the notebooks."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "_build"
