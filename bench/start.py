"""`python -m bench.start`: what a short run costs, as whole processes, and where its time goes.

One page (512 tokens) is ranked by a model of Pythia-14M's shape with random weights, on the CPU: by `rbp extract`, its
checks included, and by a script that does it the plain way (`bench/plain.py`). Both run in turn, once to warm up. The
parts are those of one more process of ours, each in seconds. Then questions that need no model are asked of the store.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

BENCH = Path(__file__).parent
RBP = [sys.executable, "-m", "rbp.cli"]
PLAINLY = [sys.executable, "-m", "bench.plain"]
PLAIN, OURS = "plain script", "rbp extract"
QUESTIONS = {
    "rbp ranks summary": ["ranks", "summary", "{store}", "--k", "1,10"],
    "rbp ranks query": ["ranks", "query", "SELECT count(*) FROM ranks", "--stores", "{store}"],
    "rbp fit": ["fit", "--measurements", "published", "--dataset", "wikipedia", "--family", "Pythia", "--k", "1"],
    "rbp law": ["law", "{store}", "-k", "1000", "--out", "{folder}/law.html"],
}


def process(command: list[str], folder: Path) -> tuple[float, float]:
    """The seconds that a process takes, and of these the processor's. Raises CalledProcessError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)  # noqa: S603  # our own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def extraction(folder: Path, model: Path, texts: Path) -> list[str]:
    """The command that ranks the page into a folder of its own."""
    shutil.rmtree(folder / "stores", ignore_errors=True)
    return [*RBP, "extract", "--model", str(model), "--corpus", str(texts), "--protocol", "authors", "--out", "stores"]


def parts(model: str, texts: str) -> dict[str, float]:
    """Seconds of each part of an extraction, in a process that has imported nothing yet."""
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        found[name] = round(time.perf_counter() - start, 3)
        return result

    def imports(*names: str) -> Callable[[], None]:
        return lambda: [__import__(name) for name in names] and None

    timed("import torch", imports("torch"))
    timed("import the model's class", imports("transformers.models.gpt_neox.modeling_gpt_neox"))
    timed("import rbp", imports("rbp.cli.app", "rbp.ranks.extraction"))

    import torch

    from rbp.ranks.corpora import open_corpus
    from rbp.ranks.extraction import quiet
    from rbp.ranks.forward import Ranker
    from rbp.ranks.models import find_model, load_model, load_tokenizer
    from rbp.ranks.protocols import plan_rows, protocol
    from rbp.ranks.store import Store, read_part
    from rbp.ranks.verify import Stored, plain_logits, verify_sample

    files = find_model(model)
    with quiet():
        tokenizer = timed("tokenizer", lambda: load_tokenizer(files))
        language = timed("weights", lambda: load_model(files, "float32", torch.device("cpu")))
    rows = timed("text", lambda: plan_rows(open_corpus(texts), tokenizer, protocol())).rows
    ranker = Ranker(language, "blocked", 8, compiled=False)
    timed("checks before", lambda: ranker.check(rows))
    ranks = timed("ranks", lambda: ranker.rank(rows))
    columns = {"document": 0 * rows[0].scored, "position": rows[0].scored, "token": rows[0].ids[rows[0].scored]}
    columns |= {"greater": ranks.greater, "equal": ranks.equal, "nll": ranks.nll}
    with TemporaryDirectory() as folder:
        store = Store(Path(folder))
        timed("store", lambda: store.write(0, columns))
        stored = Stored(read_part(store.parts()[0][0]), "")
    timed("a sample asked again", lambda: list(verify_sample(plain_logits(ranker, apart=False), rows, stored)))
    return found


def packages(command: list[str], folder: Path) -> dict[str, float]:
    """The seconds that importing takes in a process, by package, those of a tenth of a second and more."""
    lines = subprocess.run(  # noqa: S603  # our own
        [command[0], "-X", "importtime", *command[1:]], cwd=folder, check=True, capture_output=True, text=True
    ).stderr
    own: Counter[str] = Counter()
    for microseconds, name in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s*(\w+)", lines, re.MULTILINE):
        own[name] += int(microseconds)
    return {name: round(total / 1e6, 3) for name, total in own.most_common() if total >= 1e5}


def measured(rounds: int) -> dict[str, Any]:
    """All that is printed, and written as JSON."""
    from bench.common import circumstances, spread
    from bench.extraction import SHAPES, make

    with TemporaryDirectory() as place:
        folder = Path(place)
        shape = SHAPES["cpu"]._replace(documents=1)
        model, texts = make(folder, shape, "cpu")
        plain = [*PLAINLY, str(model), str(texts)]
        seconds: dict[str, list[tuple[float, float]]] = {PLAIN: [], OURS: []}
        for _ in range(rounds + 1):
            seconds[PLAIN].append(process(plain, BENCH.parent))
            seconds[OURS].append(process(extraction(folder, model, texts), folder))
        wall, used = ({name: [each[i] for each in seconds[name][1:]] for name in seconds} for i in range(2))
        rows = [
            {"way": name} | spread(wall[name], wall[PLAIN]) | {"processor": spread(used[name], used[PLAIN])}
            for name in seconds
        ]
        (store,) = (folder / "stores").iterdir()
        questions = {}
        for name, words in QUESTIONS.items():
            command = [*RBP, *(word.format(store=store, folder=folder) for word in words)]
            questions[name] = round(median(process(command, folder)[0] for _ in range(rounds + 1)), 3)
        ours = [sys.executable, "-m", "bench.start", "--parts", str(model), str(texts)]
        each = json.loads(subprocess.run(ours, cwd=BENCH.parent, check=True, capture_output=True, text=True).stdout)  # noqa: S603  # our own
        imported = packages(extraction(folder, model, texts), folder)
        bare = median(process([sys.executable, "-c", ""], folder)[0] for _ in range(rounds))
    about = {"name": shape.name, "tokens": 511, "rounds": rounds, "rows": rows, "questions": questions}
    return circumstances("cpu") | about | {"parts": {"interpreter": round(bare, 3)} | each, "imports": imported}


def main() -> None:
    """Measure and print; with --json, write it too."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results there, such as bench/results/start-cpu.json")
    parser.add_argument("--parts", nargs=2, metavar=("MODEL", "TEXTS"), help="the parts of one extraction, as JSON")
    options = parser.parse_args()
    if options.parts:
        sys.stdout.write(json.dumps(parts(*options.parts)))
        return
    from bench.common import title, write

    results = measured(options.rounds)
    table = Table("whole process", "seconds", "ratio (median)", "smallest to largest", "processor's, ratio")
    table.title = f"{title(results)}\n{results['name']}'s shape, {results['tokens']} tokens"
    for row in results["rows"]:
        span = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        table.add_row(
            row["way"], f"{row['seconds']:.2f}", f"{row['ratio']:.2f}", span, f"{row['processor']['ratio']:.2f}"
        )
    console = Console(width=140)
    console.print(table)
    for name in ("parts", "imports", "questions"):
        console.print(f"{name}: " + ", ".join(f"{part} {seconds:.2f} s" for part, seconds in results[name].items()))
    if options.json:
        write(results, options.json)


if __name__ == "__main__":
    main()
