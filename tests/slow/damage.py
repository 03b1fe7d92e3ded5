"""Damage at random: to bytes, to values of JSON, to assignments of TOML."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbp.errors import RbpError

#: texts that have broken readers: numbers at the edges, other alphabets, code, names of files, NUL and half characters
WORDS = [
    *("", " ", "0", "-0", "-1", "1e400", "1e-400", "nan", "NaN", "inf", "-Infinity", "9" * 400, "1_000", "0x1", "1.0"),
    *("None", "null", "true", "é", "ß", "漢字", "١٢", "½", "\u2028", "\ufeff", "a\0b"),
    *("\t", "\n", "\r\n", '"', '""', "'"),
    *(",", ";", "=", "[", "]", "{", "}", "#", "%", "$HOME", "`id`", "../x", "/", ".", "~", "[" * 3000, "{" * 3000),
    *("__import__('os')", "wikipedia", "Pythia", "neg_log_rbp", "cross_entropy", "a" * 5000, "published", "\\"),
]


def damaged(data: bytes, seed: int) -> bytes:
    """The data with one to four damages."""
    rng = random.Random(seed)  # noqa: S311
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 2, 8, 100))
        how = rng.randrange(6)
        if how == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif how == 1:
            del changed[at : at + length]
        elif how == 2:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif how == 3:
            changed[at : at + length] = bytes(length)
        elif how == 4:
            changed[at:at] = rng.choice(WORDS).encode()
        else:
            changed[at:at] = changed[max(0, at - length) : at]
    return bytes(changed)


def altered(value: Any, seed: int) -> Any:
    """A JSON value with one to three entries replaced, removed or added, at any depth."""
    rng = random.Random(seed)  # noqa: S311
    odd: list[Any] = [
        None,
        True,
        -1,
        0,
        1.5,
        float("nan"),
        float("inf"),
        10**400,
        "",
        "x",
        [],
        {},
        [[]],
        {"a": 1},
        "9" * 50,
    ]

    def once(node: Any) -> Any:
        if isinstance(node, dict) and node and rng.random() < 0.9:
            name = rng.choice(sorted(node))
            if rng.random() < 0.15:
                return {k: v for k, v in node.items() if k != name}
            if rng.random() < 0.1:
                return {**node, rng.choice(WORDS): rng.choice(odd)}
            return {**node, name: once(node[name])}
        if isinstance(node, list) and node and rng.random() < 0.8:
            at = rng.randrange(len(node))
            return [*node[:at], once(node[at]), *node[at + 1 :]]
        return rng.choice(odd)

    for _ in range(rng.randint(1, 3)):
        value = once(value)
    return value


def tolerated(read: Callable[[], object]) -> None:
    """Read; an RbpError is an answer."""
    with suppress(RbpError):
        read()


Target = Callable[[Path, int], None]


def in_file(name: str, data: bytes, read: Callable[[Path], object]) -> Target:
    """A file with damaged data."""

    def once(folder: Path, seed: int) -> None:
        path = folder / name
        path.write_bytes(damaged(data, seed))
        tolerated(lambda: read(path))

    return once


ODD = (
    *("-1", "0", "1.5", "nan", "inf", "''", "[]", "{}", "true", "[1]", "9" * 30, "1979-05-27", '"x"', "[" * 2000),
    *('"a\\u0000b"', '["a", "a"]', "{ a = 1 }", "1e400", "0x10", '"../../x"', "[[]]", '[{ name = "" }]'),
)


def reassigned(text: str, seed: int) -> str:
    """TOML with one to three of its assignments given other values, taken away, or doubled under another name."""
    rng = random.Random(seed)  # noqa: S311
    lines = text.splitlines()
    assigned = [i for i, line in enumerate(lines) if "=" in line and not line.startswith(("#", " "))]
    for at in rng.sample(assigned, rng.randint(1, 3)):
        name, value = lines[at].split("=", 1)
        how = rng.random()
        if how < 0.8:
            lines[at] = f"{name}= {rng.choice(ODD)}"
        elif how < 0.9:
            lines[at] = ""
        else:
            lines[at] += f"\n{name.strip()}_{rng.randrange(9)} = {value}"
    return "\n".join(lines)


def write_toml(text: str, path: Path, seed: int) -> None:
    """TOML with damaged bytes, or with other values."""
    path.write_bytes(damaged(text.encode(), seed) if seed % 2 else reassigned(text, seed).encode())
