"""`python -m bench.warm`: a study on this machine whose shards start warm, against one in separate processes.

Whole runs of `rbp study run` on the ladder's three smallest models and two texts: six shards, six merges, the table and
the pages. Both ways write the same bytes, or this fails.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.common import circumstances, spread, title, write
from rbp.core.paths import LADDER

MODELS = [LADDER / "families" / "neox" / f"neox-{rung}-at-8m" for rung in ("10k", "22k", "59k")]
STUDY = """models = [{models}]
corpora = ["ladder/humaneval", "ladder/wikipedia"]
tokens = 1500
device = "cpu"
output = "out"
[protocol]
name = "authors"
length = 64
pack = 2
"""
WARM, APART = "warm", "separate processes"
#: the command, where there is no server of `rbp.book.workers`
ALONE = """
import sys
from rbp.book import workers
workers.serving = lambda command, modules: list(command)
from rbp.cli import main
sys.argv[0] = "rbp"
main()
"""
COMMANDS = {APART: ["-c", ALONE], WARM: ["-m", "rbp.cli"]}


def run(way: str) -> tuple[float, dict[str, bytes]]:
    """Seconds of a whole study, and its files of ranks and measurements."""
    with TemporaryDirectory() as place:
        models = ", ".join(f'{{ name = "{model}", family = "neox" }}' for model in MODELS)
        (Path(place) / "study.toml").write_text(STUDY.format(models=models))
        command = [sys.executable, *COMMANDS[way], "--home", place, "study", "run", "study.toml", "--profile", "local"]
        start = time.perf_counter()
        subprocess.run(command, cwd=place, check=True, capture_output=True)  # noqa: S603
        seconds = time.perf_counter() - start
        out = Path(place) / "out"
        made = [*out.glob("**/parts/*"), out / "measurements.csv"]
        return seconds, {path.name: path.read_bytes() for path in made}


def main() -> None:
    """Measure, print, and write the file if one is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {way: [] for way in COMMANDS}
    for _ in range(given.rounds):
        made = []
        for way in COMMANDS:
            took, files = run(way)
            seconds[way].append(took)
            made.append(files)
        if made[0] != made[1] or len(made[0]) < 2 * len(MODELS):
            raise SystemExit("the two ways did not write the same files")
    rows = [{"way": way} | spread(seconds[way], seconds[APART]) for way in COMMANDS]
    results = circumstances("cpu") | {"rounds": given.rounds, "shards": 2 * len(MODELS), "rows": rows}
    print(f"{title(results)}: a study of {results['shards']} shards")
    for row in rows:
        span = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        print(f"{row['way']:20} {row['seconds']:6.1f} s   ratio {row['ratio']:.2f} ({span})")
    if given.json:
        write(results, given.json)


if __name__ == "__main__":
    main()
