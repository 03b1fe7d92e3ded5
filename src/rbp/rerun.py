"""What a page says of reruns: how to rerun it, at its end; and at its head, that it is one."""

import html
import json
import shlex
from collections.abc import Mapping

from rbp.parameters import Parameter


def example(parameters: list[Parameter]) -> str:
    """One parameter with another value than its default, as `-p` takes it; "" if there is none."""
    for parameter in parameters:
        others = [choice for choice in parameter.choices or () if choice != parameter.default]
        if parameter.name == "level":
            return "-p level=0.9"
        if others and not parameter.type.startswith("list"):
            return shlex.join(["-p", f"{parameter.name}={others[0]}"])
    return shlex.join(["-p", f"{parameters[0].name}={_shown(parameters[0].default)}"]) if parameters else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def rerun_box(chapter: str, parameters: list[Parameter]) -> str:
    """The section "Rerun this chapter" as HTML: the exact command, then name, type, default and meaning."""
    command = html.escape(f".venv/bin/rbp run {chapter} {example(parameters)}".strip())
    parts = [
        '<div class="rbp-rerun">',
        "<p>One command executes this chapter again, with other values of its parameters if you like, "
        "and writes its figures, their data and a page that opens offline into <code>runs/</code>:</p>",
        f"<pre>{command}</pre>",
    ]
    if parameters:
        head = "".join(f'<th class="txt">{name}</th>' for name in ("Parameter", "Type", "Default", "Meaning"))
        rows = "".join(f"<tr>{_row(parameter)}</tr>" for parameter in parameters)
        table = f'<table class="rbp-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        parts.append(f'<div class="rbp-scroll" tabindex="0">{table}</div>')
    return "".join([*parts, "</div>"])


def _in_code(value: object) -> str:
    """A value within backquotes: whatever it holds, it stays one word of the sentence."""
    return " ".join(_shown(value).replace("`", "'").split()) or '""'


def run_note(changed: Mapping[str, object]) -> str:
    """What a page with parameters that differ from the book's must say first, as Markdown."""
    given = ", ".join(f"`{name} = {_in_code(value)}`" for name, value in changed.items())
    return (
        f"> **This page was run with {given}.** Figures, tables and numbers are of this run; the "
        "sentences describe the book's own run. A dash (–) stands where this run has no such number.\n"
    )


def _row(parameter: Parameter) -> str:
    kind = parameter.type
    if parameter.choices is not None:
        kind = ("list of " if kind.startswith("list") else "") + " | ".join(map(_shown, parameter.choices))
    cells = (parameter.name, kind, _shown(parameter.default))
    code = "".join(f'<td class="txt"><code>{html.escape(cell)}</code></td>' for cell in cells)
    return f'{code}<td class="long">{html.escape(parameter.help)}</td>'
