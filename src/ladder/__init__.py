"""Trains families of small models, ranks and ships them.

ROOT: the checkout that it works in (without one: the working folder); LADDER: the folder of its families.
"""

from pathlib import Path

ROOT = next((folder for folder in Path(__file__).resolve().parents if (folder / "_config.yml").is_file()), Path.cwd())
DATA = ROOT / "data"
LADDER = DATA / "ladder"
