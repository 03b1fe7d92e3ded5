"""The rules that decide claims and findings: bars, and conditions over numbers and bars, as claims.toml writes them.

A finding is what a caption, a heading or a bold sentence says. A notebook gives it with its rule
(`companion.execute.page.Page.finding`). Where the rule is not met, as on a reader's own data, another sentence stands
in its place, in the caption and in the prose.
"""

import ast
import operator
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from companion.execute.results import Recorded

HOLDS, PART, FAILS, UNDECIDED = "holds", "holds in part", "does not hold", "not decided"


class MissingValueError(ValueError):
    """A condition names a value that is not there."""


class Bar(BaseModel):
    """A bar, at which a measured value passes or fails.

    kind: how `moved` scales it. A "share" stays within 0 and 1; of "r_squared" the distance from 1 is scaled; "within"
    is an upper limit; "number" is any other. harder: 1 where a higher bar is stricter (the default), −1 where a lower
    one is (the default for "within").
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    at: float
    kind: Literal["share", "r_squared", "within", "number"] = "share"
    harder: Literal[1, -1] | None = None
    percent: bool = False

    def moved(self, by: float) -> float:
        """Return the bar scaled by 1 + `by`, 0.2 for a fifth, towards the stricter side: 0.97 for R² becomes 0.976."""
        up = by * (self.harder or (-1 if self.kind == "within" else 1))
        where = 1 - (1 - self.at) * (1 - up) if self.kind == "r_squared" else self.at + abs(self.at) * up
        return round(min(where, 1.0) if self.kind == "share" else where, 10)

    def in_words(self) -> str:
        """Say what the bar is, and where: "fits that are good, to hold: 90%"."""
        limit = f"{100 * self.at:.4g}%" if self.percent or self.kind == "share" else f"{self.at:.4g}"
        return f"{self.says}: {limit}"


_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
}
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


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        raise ValueError(f"not a condition: {text}") from None


def names_in(text: str) -> Iterator[str]:
    """List the names of values that a condition reads. Raises ValueError for what is no Python."""
    nodes = list(ast.walk(_parse(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return (node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called)


def is_met(text: str, values: Mapping[str, Any]) -> bool:
    """Evaluate a condition in the words of a rule, such as "median(r) >= typical and share(r >= good) >= fits".

    values: numbers, words, True or False, and lists of numbers, by their names; `law.high` reads the value of this
    name, or of another claim `law`. There are comparisons, and, or, not, + - * /, share(list >= x), median, least,
    most, count and total. Raises ValueError for anything else, MissingValueError for a name that is not there.
    """
    return _condition(_parse(text), values)


def _condition(node: ast.expr, values: Mapping[str, Any]) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_condition(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_condition(part, values) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _condition(inner, values)
        case ast.Compare(left=left, ops=[sign, *others], comparators=[right, *more]):
            first = _compare(node, sign, _value(left, values), _value(right, values))
            return first and (not others or _condition(ast.Compare(left=right, ops=others, comparators=more), values))
        case ast.Name() | ast.Attribute() | ast.Constant() if isinstance(value := _value(node, values), bool):
            return value
    raise ValueError(f"not a condition: {ast.unparse(node)}")


def _compare(node: ast.expr, sign: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(sign, ast.Eq | ast.NotEq):
        return bool(left == right) == isinstance(sign, ast.Eq)
    if type(sign) in _COMPARE and isinstance(left, int | float) and isinstance(right, int | float):
        return _COMPARE[type(sign)](left, right)
    raise ValueError(f"these cannot be compared: {ast.unparse(node)}")


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Evaluate a number, a word, a list or a truth value."""
    match node:
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.Name() | ast.Attribute() if (name := ast.unparse(node)) in values:
            return values[name]
        case ast.Attribute(value=ast.Name(id=claim), attr=key) if isinstance(values.get(claim), Mapping):
            if key in values[claim]:
                return values[claim][key]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SUMS:
            return _SUMS[type(sign)](_number(left, values), _number(right, values))
        case ast.Call(func=ast.Name(id="share"), args=[ast.Compare(left=left, ops=[sign], comparators=[right])]):
            than = _number(right, values)
            return statistics.fmean([_compare(node, sign, value, than) for value in _list(left, values)])
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _OF_LISTS:
            return _OF_LISTS[name](_list(argument, values))
    missing = isinstance(node, ast.Name | ast.Attribute)
    raise (MissingValueError if missing else ValueError)(f"not a value: {ast.unparse(node)}")


def _list(node: ast.expr, values: Mapping[str, Any]) -> list[float]:
    if isinstance(value := _value(node, values), list):
        return value
    raise ValueError(f"not a list: {ast.unparse(node)}")


def _number(node: ast.expr, values: Mapping[str, Any]) -> float:
    if isinstance(value := _value(node, values), int | float):
        return value
    raise ValueError(f"not a number: {ast.unparse(node)}")


# ── Findings


def judge(rule: str, values: Mapping[str, Recorded]) -> bool | None:
    """Return whether a rule (`is_met`) is met by recorded values; None where it cannot be computed.

    That is where a value is missing, or a share is of nothing. Raises ValueError for what is no rule.
    """
    try:
        return is_met(rule, {key: recorded.value for key, recorded in values.items()})
    except (MissingValueError, ZeroDivisionError):
        return None


def replace_findings(text: str, findings: Mapping[str, Recorded], mark: str = "") -> str:
    """Replace the findings of a text that a run does not bear out by what stands in their place, followed by `mark`."""
    for finding, stands in findings.items():
        other = f"{stands.value}{mark}" if stands.value else f"{finding} (in the book; not in this run)"
        text = place_of(finding).sub(re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", other).replace("\\", r"\\"), text)
    return text


def place_of(finding: str) -> re.Pattern[str]:
    """Return the pattern by which a finding is known in prose, over breaks of lines."""
    return re.compile(r"\s+".join(map(re.escape, finding.split())))
