"""Summarize, as Markdown, what a change moved: the book's numbers, tables and figures, and the claims.

    python .ci/changed.py BASE [--before FOLDER]

Values, tables and downloads: as accepted at the commit BASE against those of this build. Claims: their tables in
claims.toml at BASE against this tree's. Figures: of the book's pages in FOLDER, built from BASE, against this build's;
without FOLDER none are compared. What differs is copied from both into _build/changed. Exit 1 where the build is not of
this tree: then nothing is compared but the claims.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from companion.execute import results
from companion.ledger import claims
from companion.project import CLAIMS, ROOT, Project
from companion.render.build import differences_of_tree

MOST = 200  # rows of a table
LONGEST = 300  # characters of a cell


def read_at(project: Project, base: str, path: Path) -> bytes:
    """Read a file of the project as it is at a commit."""
    command = ["git", "-C", str(project.root), "show", f"{base}:{path.relative_to(project.root)}"]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603


def read_claims_of(project: Project, commit: str | None) -> str:
    """Read the claims of a commit, or of this tree, as TOML."""
    path = project.root / CLAIMS.relative_to(ROOT)
    return read_at(project, commit, path).decode() if commit else path.read_text(encoding="utf-8")


def compare_results(project: Project, base: str) -> list[results.Difference]:
    """Compare what this build recorded with what was accepted at a commit."""
    with TemporaryDirectory() as folder:
        before = Path(folder) / "results.json"
        before.write_bytes(read_at(project, base, project.expected))
        return results.compare(results.read_book(project.results), results.read_book(before))


def name_readers(value: str, listed: Sequence[claims.Claim]) -> str:
    """Name the claims that read a value, CHAPTER::KEY, or whose verdict it is."""
    readers = [
        f"{claim.number} ({claim.name})"
        for claim in listed
        if any(results.select([value], key) for key in (*claim.keys.values(), f"ledger::verdict.{claim.name}"))
    ]
    return ", ".join(readers)


def list_fields(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """List the fields of a claim and of the tables in it, such as bars.good.at, with their values as text."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from list_fields(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", str(value)


def compare_claims(before: str, now: str) -> list[tuple[str, str, str, str]]:
    """List what differs between the claims in two texts of claims.toml: claim, field, and its value in both."""
    old, new = ({claim: dict(list_fields(table)) for claim, table in tomllib.loads(t).items()} for t in (before, now))
    rows = []
    for claim in sorted({*old, *new}):
        was, is_now = old.get(claim, {}), new.get(claim, {})
        fields = [field for field in {**was, **is_now} if was.get(field) != is_now.get(field)]
        rows += [(claim, field, was.get(field, "–"), is_now.get(field, "–")) for field in fields]
    return rows


def changed_figures(project: Project, before: Path) -> list[str]:
    """List the figures, CHAPTER/NAME.svg, that differ between pages built before and this build."""
    old = {f"{path.parent.name}/{path.name}": path for path in before.glob("notebooks/*/*.svg")}
    new = {f"{path.parent.name}/{path.name}": path for path in project.chapters.glob("*/*/*.svg")}
    both = {name for name in old.keys() & new.keys() if old[name].read_bytes() == new[name].read_bytes()}
    return sorted((old.keys() | new.keys()) - both)


def copy_both(project: Project, before: Path | None, name: str) -> None:
    """Copy a file of a chapter, CHAPTER/NAME, as it was before and as it is, into ``_build/changed``."""
    sources = {"after": project.chapters / Path(name).parent / name}
    if before:
        sources["before"] = before / "notebooks" / name
    for when, source in sources.items():
        if source.exists():
            copy = project.build / "changed" / when / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def table_lines(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Write a heading with the number of rows, and the first rows as a table."""
    lines = ["", f"### {title}: {len(rows)}", ""]
    if rows:
        lines += [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in rows[:MOST]:
        texts = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
        cells = [text if len(text) <= LONGEST else f"{text[:LONGEST]} …" for text in texts]
        lines.append(f"| {' | '.join(cells)} |")
    return lines + [f"\n{len(rows) - MOST} more are not listed."] * (len(rows) > MOST)


def describe_build(project: Project, base: str, before: Path | None) -> list[str]:
    """Write which values, tables and figures differ, as lines; copies the files."""
    differences, listed = compare_results(project, base), claims.read_claims()
    values, files = [], []
    for each in differences:
        sides = [each.expected, each.built]
        if any(side and side.unit == results.CHECKSUM for side in sides):
            files.append((f"{each.chapter}/{each.key}", each.kind))
        else:
            name = f"{each.chapter}::{each.key}"
            texts = [side.value if side else "–" for side in sides]
            values.append((name, *texts, name_readers(name, listed)))
    heads = ("value", "before", "after", "claims that read it")
    lines = table_lines(f"Values that differ from those accepted at {base[:12]}", heads, values)
    lines += table_lines("Tables, and data of figures, that differ", ("file", ""), files)
    figures = changed_figures(project, before) if before else []
    if before:
        lines += table_lines("Figures that differ", ("file",), [(name,) for name in figures])
    else:
        lines += ["", "### Figures are not compared: there are no pages built from the base"]
    names = [name for name, _ in files] + figures
    for name in names:
        copy_both(project, before, name)
    return lines + ["", "Each file is in the artifact `changed`, as it was and as it is."] * bool(names)


def summarize(project: Project, base: str, before: Path | None) -> tuple[str, bool]:
    """Write the summary; returns also whether the build is of this tree."""
    shutil.rmtree(project.build / "changed", ignore_errors=True)
    if stale := differences_of_tree(project):
        head = "### The book was not built from this tree: its values, tables and figures are not compared"
        lines = [head, "", *(f"- {each}" for each in stale)]
    else:
        lines = describe_build(project, base, before)
    rules = compare_claims(*(read_claims_of(project, commit) for commit in (base, None)))
    lines += table_lines("Claims whose rule, bar or wording differs", ("claim", "field", "before", "after"), rules)
    return "\n".join(lines).strip() + "\n", not stale


def main() -> None:
    """Print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a commit")
    parser.add_argument("--before", type=Path, help="a folder of pages that were built from BASE")
    given = parser.parse_args()
    text, is_current = summarize(Project(), given.base, given.before)
    print(text)
    sys.exit(not is_current)


if __name__ == "__main__":
    main()
