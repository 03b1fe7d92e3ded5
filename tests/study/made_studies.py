"""What the tests of studies share."""

from pathlib import Path

from rbp.core.paths import ROOT

MODEL = ROOT / "data" / "ladder" / "models" / "ladder-10k"


def parts(ranks: Path) -> dict[str, bytes]:
    """Every file below a folder of rank stores that holds ranks, by its name."""
    return {path.name: path.read_bytes() for path in ranks.glob("*/parts/*")}
