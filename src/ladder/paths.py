"""The checkout that these packages work in (without one: the working folder), and the folder of its families."""

from pathlib import Path

_ABOVE = Path(__file__).resolve().parents
ROOT = next((folder for folder in _ABOVE if (folder / "_config.yml").is_file()), Path.cwd())
DATA = ROOT / "data"
LADDER = DATA / "ladder"
