"""Fail where a package, a module or a notebook's cell is longer than `.ci/sizes.toml` allows.

The limits are a ratchet: lower them when code goes; raise one only in a commit of its own that says why.
"""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def count_lines(path: Path) -> int:
    """Count the lines of a file."""
    return len(path.read_text().splitlines())


def find_excesses() -> list[str]:
    """Return a line for each limit that is exceeded."""
    limits = tomllib.loads((ROOT / ".ci" / "sizes.toml").read_text())
    sizes: dict[str, list[tuple[Path, int]]] = {
        folder: [(path, count_lines(path)) for path in sorted((ROOT / folder).rglob("*.py"))]
        for folder in limits["folders"]
    }
    excesses = [
        f"{folder}: {total} lines, {limit} allowed"
        for folder, limit in limits["folders"].items()
        if (total := sum(lines for _, lines in sizes[folder])) > limit
    ]
    excesses += [
        f"{path.relative_to(ROOT)}: {lines} lines, {limits['module']} allowed in a module"
        for files in sizes.values()
        for path, lines in files
        if lines > limits["module"]
    ]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        excesses += [
            f"{path.relative_to(ROOT)}, cell {number}: {len(cell['source'])} lines, {limits['cell']} allowed"
            for number, cell in enumerate(cells, start=1)
            if cell["cell_type"] == "code" and len(cell["source"]) > limits["cell"]
        ]
    return excesses


if __name__ == "__main__":
    excesses = find_excesses()
    print("\n".join(excesses) or "no package, module or cell is beyond its limit")
    sys.exit(bool(excesses))
