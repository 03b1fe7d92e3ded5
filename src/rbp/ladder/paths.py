"""Where the checkout is that these packages work in, and the families that it ships."""

from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
DATA = ROOT / "data"
LADDER = DATA / "ladder"
