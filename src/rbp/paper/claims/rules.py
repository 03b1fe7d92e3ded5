"""A rule as data: measured values, comparisons, and bars that can be moved.

Python judges with this data (`Rule.verdict`), and so does the page, whose script is given the same as JSON. A condition
is true or false; or (sign, value, value), a comparison; or ("met", n, condition, …), met where n of them are. A value
is a number, the name of a bar, or ("share", numbers, sign, value): the share of the numbers that compare so.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

HOLDS, PART, FAILS = "holds", "holds in part", "does not hold"

Condition = bool | tuple[Any, ...]
Value = float | str | tuple[Any, ...]

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Bar:
    """What a measured value is held against.

    `at` is where the rule has it, `low`, `high` and `step` are those of its slider. A bar gets `harder` as it goes up,
    or down, and is a fifth harder where it lies a fifth farther from `zero`, or nearer to it: 1 for an R², whose bar
    is what may be left unexplained.
    """

    says: str
    at: float
    low: float
    high: float
    step: float
    harder: int = 1
    zero: int = 0
    percent: bool = False

    def moved(self, harder: float) -> float:
        """The bar so much harder, 0.2 for a fifth, or easier, −0.2; no farther than its slider goes."""
        away = 1 if self.zero < self.at else -1  # the side of zero on which it lies
        where = self.zero + (self.at - self.zero) * (1 + harder * self.harder * away)
        return round(min(max(where, self.low), self.high), 10)


def share(says: str, at: float, *, harder: int = 1) -> Bar:
    """A bar for a share, 0 to 1."""
    return Bar(says, at, 0, 1, 0.01, harder=harder, percent=True)


def r_squared(says: str, at: float, *, harder: int = 1) -> Bar:
    """A bar for R², or for a share that is to be nearly 1."""
    return Bar(says, at, 0.5, 1, 0.001, harder=harder, zero=1)


def within(says: str, at: float, high: float, step: float, *, percent: bool = False) -> Bar:
    """A bar for what is to be small: harder as it shrinks."""
    return Bar(says, at, 0, high, step, harder=-1, percent=percent)


def at_least(value: Value, bar: Value) -> Condition:
    """Met if the value is at least the bar."""
    return (">=", value, bar)


def above(value: Value, bar: Value) -> Condition:
    """Met if the value is more than the bar."""
    return (">", value, bar)


def at_most(value: Value, bar: Value) -> Condition:
    """Met if the value is at most the bar."""
    return ("<=", value, bar)


def below(value: Value, bar: Value) -> Condition:
    """Met if the value is less than the bar."""
    return ("<", value, bar)


def met(least: int, *conditions: Condition) -> Condition:
    """Met if so many of the conditions are."""
    return ("met", least, *conditions)


def every(*conditions: Condition) -> Condition:
    """Met if all of the conditions are."""
    return met(len(conditions), *conditions)


def share_of(values: Sequence[float], sign: str, bar: Value) -> Value:
    """The share of the values that compare so with the bar."""
    return ("share", tuple(values), sign, bar)


def _value(node: Value, at: Mapping[str, float]) -> float:
    match node:
        case str():
            return at[node]
        case (_, values, sign, than):
            bar = _value(than, at)
            return sum(COMPARE[sign](each, bar) for each in values) / len(values)
    return float(node)  # type: ignore[arg-type]


def _met(node: Condition, at: Mapping[str, float]) -> bool:
    match node:
        case bool():
            return node
        case ("met", least, *conditions):
            return sum(_met(each, at) for each in conditions) >= int(least)
    sign, left, right = node
    return COMPARE[sign](_value(left, at), _value(right, at))


@dataclass(frozen=True)
class Rule:
    """When a claim holds, and when in part; it does not else. What has no bars cannot be moved."""

    holds: Condition
    part: Condition = False
    bars: Mapping[str, Bar] = field(default_factory=dict)

    def verdict(self, moved: Mapping[str, float] | None = None) -> str:
        """The verdict, with some bars elsewhere, by their names."""
        at = {name: bar.at for name, bar in self.bars.items()} | dict(moved or {})
        return HOLDS if _met(self.holds, at) else PART if _met(self.part, at) else FAILS

    def stressed(self, harder: float) -> str:
        """The verdict with all bars so much harder, 0.2 for a fifth, or easier."""
        return self.verdict({name: bar.moved(harder) for name, bar in self.bars.items()})

    def as_data(self) -> dict[str, Any]:
        """The rule for the page, as what JSON can write."""
        return {
            "holds": self.holds,
            "part": self.part,
            "bars": {
                name: asdict(bar) | {"easy": bar.moved(-0.2), "hard": bar.moved(0.2)} for name, bar in self.bars.items()
            },
        }


def by_share(value: Value, says: str, *, holds: float = 1.0, part: float = 0.5) -> Rule:
    """The rule that a share reach `holds`, or else `part`; `says` names what is counted."""
    bars = {"holds": share(f"{says}, to hold", holds), "part": share(f"{says}, in part", part)}
    return Rule(at_least(value, "holds"), at_least(value, "part"), bars)
