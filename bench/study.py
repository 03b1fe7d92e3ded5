"""`python -m bench.study`: what a job of a study costs beside the model's own work, for `rbp study plan`.

Seconds are those of the processor, one core, so that a busy machine gives the same: to start (Python and all imports),
to check weights (SHA-256), to tokenize, and to write ranks. What a network or a shared file system adds is not in them.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import Tokenizer

from bench.common import circumstances, title, write
from rbp.core.paths import LADDER
from rbp.ladder.ranking import evaluation_documents
from rbp.ranks.store import SCHEMA, Store, open_store

DOMAIN = "wikipedia"
BYTES = 256 * 2**20


def main() -> None:
    """Measure, print, and write the file if one is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    texts = [document.text for document in evaluation_documents(DOMAIN)]
    tokenizer = Tokenizer.from_file(str(LADDER / "tokenizer" / "tokenizer.json"))
    tokens = sum(len(one.ids) for one in tokenizer.encode_batch(texts))
    store = open_store(next((LADDER / "families-ranks" / "neox").glob(f"*-{DOMAIN}-*")))
    columns = {name: store.ranks()[name].to_numpy() for name in SCHEMA.names}
    weights = bytes(BYTES)
    with TemporaryDirectory() as folder:
        seconds = {
            "digest": _median(lambda: hashlib.sha256(weights).digest(), given.rounds),
            "tokenize": _median(lambda: tokenizer.encode_batch(texts), given.rounds),
            "write": _median(lambda: Store(Path(folder)).write(0, columns), given.rounds),
            "start": median(_start() for _ in range(given.rounds)),
        }
    results: dict[str, Any] = circumstances("cpu") | {
        "rounds": given.rounds,
        "tokens": tokens,
        "rates": {
            "digest": BYTES / seconds["digest"],
            "tokenize": tokens / seconds["tokenize"],
            "write": len(columns["token"]) / seconds["write"],
            "start": seconds["start"],
        },
    }
    print(title(results))
    print(json.dumps(results["rates"], indent=1))
    if given.json:
        write(results, given.json)


def _median(work: Callable[[], object], rounds: int) -> float:
    """The processor's seconds for `work`: the median of some rounds, after one that is left out."""
    found = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return median(found[1:])


def _start() -> float:
    """The processor's seconds until a job has imported all that it needs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    imports = "import rbp.cli, rbp.study.tasks, rbp.ranks.extraction, transformers.models.gpt_neox.modeling_gpt_neox"
    subprocess.run([sys.executable, "-c", imports], check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
