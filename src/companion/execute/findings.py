"""Findings: what a caption, a heading or a bold sentence says, as far as the numbers of the run bear it out.

A notebook gives a finding with the rule that decides it: `companion.execute.page.Page.finding`. Where the rule is not
met, as on a reader's own data, another sentence stands in its place, in the caption and in the prose.
"""

import re
from collections.abc import Mapping

from companion.execute.results import Recorded
from companion.execute.rules import MissingValueError, is_met


def judge(rule: str, values: Mapping[str, Recorded]) -> bool | None:
    """Return whether a rule (`rules.is_met`) is met by recorded values; None where it cannot be computed.

    That is where a value is missing, or a share is of nothing. Raises ValueError for what is no rule.
    """
    try:
        return is_met(rule, {key: recorded.value for key, recorded in values.items()})
    except (MissingValueError, ZeroDivisionError):
        return None


def written(text: str, findings: Mapping[str, Recorded], mark: str = "") -> str:
    """Replace the findings of a text that a run does not bear out by what stands in their place, followed by `mark`."""
    for finding, stands in findings.items():
        other = f"{stands.value}{mark}" if stands.value else f"{finding} (in the book; not in this run)"
        text = place_of(finding).sub(re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", other).replace("\\", r"\\"), text)
    return text


def place_of(finding: str) -> re.Pattern[str]:
    """Return the pattern by which a finding is known in prose, over breaks of lines."""
    return re.compile(r"\s+".join(map(re.escape, finding.split())))
