"""The slow set: kills, failures injected at write points, and fuzzing at length; its figures go to data/faults.

    python tests/slow/run.py [--share 1.0] [--to FILE]

--share 0.05 does about a twentieth of it, to see that it works. What is done is saved as it goes. Exits 1, with what
was found, if anything did not hold.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "slow"), str(TESTS / "ladder"), str(TESTS.parent / "src")]
os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}  # before PyTorch and Hugging Face are imported

import fuzz  # noqa: E402
import kills  # noqa: E402
import tiny  # noqa: E402
import write_cases  # noqa: E402
import write_points  # noqa: E402
from apart import apart  # noqa: E402

from companion.project import DATA  # noqa: E402
from rbp.io import write_json  # noqa: E402

KILLS, EXAMPLES = 25, 800  # of each kind
LONG = 3 * 3600.0  # seconds for all failures of a case; each has a bound of its own
SPARSE = {"the pages": 0.25}  # of a case with very many steps that are alike, a share of them


class Figures:
    """What was done, saved after every piece of it."""

    def __init__(self, path: Path, share: float) -> None:
        self.path, self.began = path, time.monotonic()
        cores, memory = os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        self.content: dict[str, Any] = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{cores} cores ({platform.machine()}), {memory:.0f} GiB of memory, {platform.system()}",
            "python": platform.python_version(),
            "busy": os.getloadavg()[0] > cores / 2,
            "share": share,
            "kills": {},
            "failures": {},
            "examples": {},
            "found": [],
            "finished": False,
        }

    def add(self, kind: str, name: str, count: int, said: str = "") -> None:
        """So many of a kind are done by now."""
        self.content[kind][name] = count
        self.save()
        sys.stdout.write(f"{kind}: {name}: {count}{'; ' + said if said else ''}\n")
        sys.stdout.flush()

    def found(self, what: str) -> None:
        """Something did not hold."""
        self.content["found"].append(what)
        self.save()
        sys.stdout.write(f"DOES NOT HOLD: {what}\n")

    def save(self) -> None:
        """To the file, whole."""
        self.content["seconds"] = round(time.monotonic() - self.began)
        write_json(self.path, self.content)


def inject(figures: Figures, base: Path, share: float) -> None:
    """Failures at write points."""
    kills.prepare_ladder(base / "ladder", 20)
    apart(tiny.save_model, base / "model")
    for seed, name in enumerate(write_cases.CASES):
        part = share * SPARSE.get(name, 1.0)
        try:
            tried = apart(
                write_points.count,
                name,
                base / f"case-{seed}",
                base / "model",
                base / "ladder",
                part,
                seed,
                seconds=LONG,
            )
            figures.add("failures", name, tried)
        except AssertionError as error:
            figures.found(f"{name}: {error}")


def draw(figures: Figures, base: Path, share: float) -> None:
    """Examples for everything that reads."""
    warnings.simplefilter("ignore")
    for name in fuzz.TARGETS:
        folder = base / "fuzz" / name.replace(" ", "-")
        folder.mkdir(parents=True)
        try:
            figures.add("examples", name, fuzz.fuzz(name, folder, max(10, round(EXAMPLES * share))))
        except Exception as error:  # whatever a reader ended in
            figures.found(f"{name}: {type(error).__name__}: {error}; {' '.join(getattr(error, '__notes__', []))}")


def kill(figures: Figures, base: Path, share: float) -> None:
    """Kills at random moments."""
    for name, make in kills.WORKS.items():
        try:
            work, wanted = make(), max(1, round(KILLS * share))
            for number, said in enumerate(kills.kills(work, base / name.replace(" ", "-"), wanted), 1):
                figures.add("kills", name, number, said)
        except AssertionError as error:
            figures.found(str(error))


def main() -> None:
    """Everything, one after the other."""
    parser = argparse.ArgumentParser(description="Kills, failures at write points, fuzzing.")
    parser.add_argument("--share", type=float, default=1.0, help="how much of it, to try it out")
    parser.add_argument("--to", type=Path, default=DATA / "faults" / "figures.json", help="where the figures go")
    parser.add_argument("--only", choices=["failures", "examples", "kills"], help="one kind alone")
    chosen = parser.parse_args()
    figures = Figures(chosen.to, chosen.share)
    with tempfile.TemporaryDirectory(prefix="rbp-slow-") as folder:
        for kind, do in (("failures", inject), ("examples", draw), ("kills", kill)):
            if chosen.only in (None, kind):
                do(figures, Path(folder) / kind, chosen.share)
    whole = chosen.share >= 1 and chosen.only is None
    figures.content["finished"] = whole and not figures.content["found"]
    figures.save()
    sys.exit(1 if figures.content["found"] else 0)


if __name__ == "__main__":
    main()
