"""What training a family took, of five records, by hand."""

import json
import shutil
from pathlib import Path

import pytest

from companion.chapters.families import costs
from companion.project import LADDER

HOUR = 3600


def record(family: str, rung: str, seed: int, budget: int, hours: float) -> dict[str, object]:
    about = {"name": f"{family}-{rung}-{seed}-at-{budget}", "family": family, "rung": rung, "seed": seed, "size": 10}
    return about | {"budget": budget, "tokens": 7200 * budget, "cpu_seconds": hours * HOUR}


def test_budgets_of_a_line_share_their_trunk(tmp_path: Path) -> None:
    """The largest counts whole, another only from where it branches off: the last fifth of its budget."""
    records = [
        record("lstm", "10k", 0, 1, 1.0),
        record("lstm", "10k", 0, 2, 2.0),
        record("lstm", "10k", 0, 4, 4.0),
        record("lstm", "10k", 1, 4, 8.0),  # another seed is a line of its own
        record("neox", "22k", 0, 4, 0.5),
    ]
    (tmp_path / "families.json").write_text(json.dumps(records))
    for recipe in LADDER.glob("*.toml"):
        shutil.copy(recipe, tmp_path)
    for number, folder in enumerate(("families", "families-ranks", "families-sums"), 5):
        (tmp_path / folder / "lstm" / "10k-at-4").mkdir(parents=True)
        (tmp_path / folder / "lstm" / "10k-at-4" / "a file").write_bytes(bytes(number))
    found = costs(tmp_path).set_index("family")
    assert found["core_hours"].to_dict() == pytest.approx({"lstm": 0.2 * 1 + 0.2 * 2 + 4 + 8, "neox": 0.5}, rel=1e-12)
    assert found["models"].to_dict() == {"lstm": 4, "neox": 1}
    assert found.loc["lstm", ["slowest", "fastest"]].tolist() == [1, 2]
    assert found.loc["neox", "fastest"] == 16
    assert found[["weights", "ranks", "sums"]].T.to_dict("list") == {"lstm": [5, 6, 7], "neox": [0, 0, 0]}
