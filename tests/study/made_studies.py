"""What the tests of studies share."""

from pathlib import Path

from rbp.core.paths import LADDER

MODEL = LADDER / "families" / "neox" / "neox-10k-at-8m"


def parts(ranks: Path) -> dict[str, bytes]:
    """Every file below a folder of rank stores that holds ranks, by its name."""
    return {path.name: path.read_bytes() for path in ranks.glob("*/parts/*")}
