"""Whatever is read may be anything: no input ends in anything but a result or an error of ours.

Valid inputs are damaged at random (bytes flipped, cut, doubled), and others are made up.
"""

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest
from draws import loop_and_slow
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from companion.execute.parameters import declared, parse
from rbp.errors import RbpError
from rbp.io import canonical_json
from rbp.measurements import open_source
from rbp.texts.corpora import open_corpus

#: texts that have broken readers: numbers at the edges, other alphabets, code, names of files, NUL and half characters
WORDS = [
    *("", " ", "0", "-1", "1e400", "nan", "-Infinity", "9" * 400, "1_000", "0x1", "None", "null", "true", "é", "漢字"),
    *("١٢", "½", "\u2028", "\ufeff", "a\0b", "\t", "\r\n", '"', '""', "'", ",", ";", "=", "[" * 3000, "{" * 3000),
    *("#", "%", "$HOME", "`id`", "../x", "~", "__import__('os')", "neg_log_rbp", "a" * 5000, "published", "\\"),
]


def damaged(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 8, 100))
        before, after = data[:place], data[place:]
        inserted = rng.randbytes(length), bytes(length), rng.choice(WORDS).encode(), before[-length:], b""
        data = before + rng.choice(inserted) + after[rng.choice((0, length)) :]
    return data


CORPUS = "".join(json.dumps({"text": f"text {i}", "id": i}) + "\n" for i in range(5)).encode()
MINE = "dataset,model,family,size,metric,k,value,tokens,hits,source\n" + "".join(
    f"d,m{i},F,{10**i},neg_log_rbp,1,{-0.1 * i + 2},,,\nd,m{i},F,{10**i},cross_entropy,,{3 - 0.2 * i},,,x\n"
    for i in range(4, 9)
)
PARAMETERS = """k: int = 1  # a number
level: float = 0.5  # a level
name: str = "a"  # a word
log: bool = True  # whether
ks: list[int] = [1]  # numbers
words: list[str] = ["a"]  # words
mode: Literal["a", "b"] = "a"  # which
"""


def measurements(folder: Path, rng: random.Random) -> None:
    (folder / "mine.csv").write_bytes(damaged(MINE.encode(), rng))
    _ = open_source(folder / "mine.csv").table


def given_parameters(folder: Path, rng: random.Random) -> None:
    names = ["k", "level", "name", "log", "ks", "words", "mode", "kk", "", " k "]
    words = [f"{rng.choice(names)}={rng.choice(WORDS)}{rng.choice(WORDS)}" for _ in range(rng.randint(1, 3))]
    canonical_json(parse(declared(PARAMETERS, "01_a"), words, "01_a")).encode()


def a_corpus(folder: Path, rng: random.Random) -> None:
    (folder / "mine.jsonl").write_bytes(damaged(CORPUS, rng))
    open_corpus(str(folder / "mine.jsonl"))


@pytest.mark.long
@pytest.mark.parametrize("examples", loop_and_slow(12, 800))
@pytest.mark.parametrize("read", [measurements, given_parameters, a_corpus])
def test_nothing_ends_in_anything_but_a_result_or_an_error_of_ours(read, examples, tmp_path):
    phases = [Phase.generate, Phase.shrink]

    @settings(max_examples=examples, database=None, phases=phases, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def one(seed: int) -> None:
        with suppress(RbpError):
            read(tmp_path, random.Random(seed))  # noqa: S311

    one()
