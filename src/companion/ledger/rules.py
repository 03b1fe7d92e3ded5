"""Rules as data: measured values, comparisons, and bars that can be moved.

Python judges with this data (`Rule.verdict`), and so does the page, whose script is given the same as JSON. A condition
is true or false; or (sign, value, value), a comparison; or ("met", n, condition, …), met where n of them are; or
("not", condition). A value
is a number, the name of a bar, or ("share", numbers, sign, value): the share of the numbers that compare so.
"""

import ast
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

HOLDS, PART, FAILS, UNDECIDED = "holds", "holds in part", "does not hold", "not decided"

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
    """A bar that a measured value is compared with.

    `at` is where the rule has it, `low`, `high` and `step` describe its slider. A bar gets `harder` as it goes up,
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
        """Return the bar so much harder, 0.2 for a fifth, or easier, −0.2; no farther than its slider goes."""
        away = 1 if self.zero < self.at else -1  # the side of zero on which it lies
        where = self.zero + (self.at - self.zero) * (1 + harder * self.harder * away)
        return round(min(max(where, self.low), self.high), 10)


def share(says: str, at: float, *, harder: int = 1) -> Bar:
    """Make a bar for a share, 0 to 1."""
    return Bar(says, at, 0, 1, 0.01, harder=harder, percent=True)


def r_squared(says: str, at: float, *, harder: int = 1) -> Bar:
    """Make a bar for R², or for a share that is to be nearly 1."""
    return Bar(says, at, 0.5, 1, 0.001, harder=harder, zero=1)


def within(says: str, at: float, high: float, step: float, *, percent: bool = False) -> Bar:
    """Make a bar for what is to be small: harder as it shrinks."""
    return Bar(says, at, 0, high, step, harder=-1, percent=percent)


def met(least: int, *conditions: Condition) -> Condition:
    """Make a condition that is met if so many of the conditions are."""
    return ("met", least, *conditions)


def every(*conditions: Condition) -> Condition:
    """Make a condition that is met if all of the conditions are."""
    return met(len(conditions), *conditions)


def share_of(values: Sequence[float], sign: str, bar: Value) -> Value:
    """Return the share of the values that compare so with the bar."""
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
        case ("not", inner):
            return not _met(inner, at)
    sign, left, right = node
    return COMPARE[sign](_value(left, at), _value(right, at))


def _renamed(node: Condition | Value, names: Mapping[str, str]) -> Any:
    """Rename the bars in a condition or a value."""
    match node:
        case str():
            return names[node]
        case ("met", least, *conditions):
            return ("met", least, *(_renamed(each, names) for each in conditions))
        case ("not", inner):
            return ("not", _renamed(inner, names))
        case ("share", values, sign, than):
            return ("share", values, sign, _renamed(than, names))
        case (sign, left, right):
            return (sign, _renamed(left, names), _renamed(right, names))
    return node


@dataclass(frozen=True)
class Rule:
    """When a claim holds, and when in part; otherwise it does not hold. A rule without bars cannot be moved.

    undecided: when the evidence decides neither way; then the other conditions do not count.
    """

    holds: Condition
    part: Condition = False
    bars: Mapping[str, Bar] = field(default_factory=dict)
    undecided: Condition = False

    def verdict(self, moved: Mapping[str, float] | None = None) -> str:
        """Return the verdict, with some bars moved, by their names."""
        at = {name: bar.at for name, bar in self.bars.items()} | dict(moved or {})
        if _met(self.undecided, at):
            return UNDECIDED
        return HOLDS if _met(self.holds, at) else PART if _met(self.part, at) else FAILS

    def stressed(self, harder: float) -> str:
        """Return the verdict with all bars so much harder, 0.2 for a fifth, or easier."""
        return self.verdict({name: bar.moved(harder) for name, bar in self.bars.items()})

    def of_claim(self, number: int) -> "Rule":
        """Rename the bars for use within another claim's rule, with the claim's number: "7.holds"."""
        names = {name: name if "." in name else f"{number}.{name}" for name in self.bars}
        bars = {names[name]: bar for name, bar in self.bars.items()}
        holds, part, undecided = (_renamed(each, names) for each in (self.holds, self.part, self.undecided))
        return Rule(holds, part, bars, undecided)

    def as_data(self) -> dict[str, Any]:
        """Return the rule for the page, as JSON can write it."""
        return {
            "holds": self.holds,
            "part": self.part,
            "undecided": self.undecided,
            "bars": {
                name: asdict(bar) | {"easy": bar.moved(-0.2), "hard": bar.moved(0.2)} for name, bar in self.bars.items()
            },
        }


# ── Rules as they are written in claims.toml

_SIGNS: dict[type, str] = {ast.GtE: ">=", ast.Gt: ">", ast.LtE: "<=", ast.Lt: "<"}
_SUMS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_OF_LISTS: dict[str, Callable[[Any], float]] = {
    "median": statistics.median,
    "least": min,
    "most": max,
    "count": len,
    "total": sum,
}
_KINDS: dict[str, Callable[..., Bar]] = {"share": share, "r_squared": r_squared, "within": within, "bar": Bar}


def read_bar(table: Mapping[str, Any]) -> Bar:
    """Read a bar of claims.toml: says, at, its kind ("share", "r_squared", "within", "bar") and that kind's fields."""
    rest = {key: value for key, value in table.items() if key != "kind"}
    return _KINDS[table.get("kind", "share")](**rest)


def read_condition(text: str, values: Mapping[str, Any], bars: Mapping[str, Bar]) -> Condition:
    """Read a condition in the words of a rule, such as "median(r) >= typical and share(r >= good) >= fits".

    Names come from `values` (numbers, words, True or False, or lists of numbers) and from `bars`; `law.high` is a
    value of another claim, `law.holds`, `law.in_part` and `law.undecided` its own rule. There are comparisons, and, or, not, + - * /,
    share(list >= x), median, least, most, count and total. Raises ValueError for anything else, and for a name that is
    not there. A comparison with no bar in it is decided here.
    """
    return _Reader(values, bars).condition(ast.parse(text.strip(), mode="eval").body)


@dataclass(frozen=True)
class _Reader:
    values: Mapping[str, Any]
    bars: Mapping[str, Bar]

    def condition(self, node: ast.expr) -> Condition:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return every(*map(self.condition, parts))
            case ast.BoolOp(values=parts):
                return met(1, *map(self.condition, parts))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                inside = self.condition(inner)
                return not inside if isinstance(inside, bool) else ("not", inside)
            case ast.Attribute(attr="holds" | "in_part" | "undecided"):
                return self.value(node)  # type: ignore[no-any-return]
            case ast.Compare(left=left, ops=[first, *others], comparators=[right, *more]) if others:
                rest = ast.Compare(left=right, ops=others, comparators=more)
                return every(
                    self.condition(ast.Compare(left=left, ops=[first], comparators=[right])), self.condition(rest)
                )
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as sign], comparators=[right]):
                return bool(self.value(left) == self.value(right)) == isinstance(sign, ast.Eq)
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _SIGNS:
                compared = (_SIGNS[type(sign)], self.value(left), self.value(right))
                if wrong := [each for each in compared[1:] if isinstance(each, str) and each not in self.bars]:
                    raise ValueError(f"a word is no number: {wrong[0]}")
                moved = any(isinstance(each, tuple | str) for each in compared[1:])
                return compared if moved else bool(COMPARE[compared[0]](compared[1], compared[2]))
            case ast.Name() | ast.Constant():
                value = self.value(node)
                if isinstance(value, bool):
                    return value
        raise ValueError(f"no condition: {ast.unparse(node)}")

    def value(self, node: ast.expr) -> Any:
        """Read a number or a word, the name of a bar, or a share that a bar moves."""
        match node:
            case ast.Constant(value=int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in self.bars or name in self.values:
                return name if name in self.bars else self.values[name]
            case ast.Attribute(value=ast.Name(id=claim), attr=key) if key in self.values.get(claim, ()):
                return self.values[claim][key]
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SUMS:
                return _SUMS[type(sign)](self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id="share"), args=[ast.Compare(left=left, ops=[sign], comparators=[right])]):
                than = self.value(right)
                return share_of(self.list(left), _SIGNS[type(sign)], than)
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _OF_LISTS:
                return _OF_LISTS[name](self.list(argument))
        raise ValueError(f"no value: {ast.unparse(node)}")

    def list(self, node: ast.expr) -> Any:
        if isinstance(value := self.value(node), list):
            return value
        raise ValueError(f"no list: {ast.unparse(node)}")

    def number(self, node: ast.expr) -> float:
        value = self.value(node)
        if isinstance(value, int | float):
            return value
        raise ValueError(f"no number: {ast.unparse(node)}")
