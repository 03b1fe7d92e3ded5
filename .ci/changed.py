"""Summarize, as Markdown, which of the book's numbers and figures a change moved, and the claims they touch.

    python .ci/changed.py BASE [--before FOLDER]

Values: as accepted at the commit BASE against this build's (``_build/results.json``). Figures: of the
book's pages in FOLDER, built earlier, against the pages in ``_build/html``; without FOLDER none are compared.
"""

import argparse
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from companion import results
from companion.ledger import claims
from companion.project import Project

MOST = 200  # rows of a table


def compare_values(project: Project, base: str) -> list[results.Difference]:
    """Compare the built values with the values accepted at a commit."""
    path = project.expected.relative_to(project.root)
    with TemporaryDirectory() as folder:
        before = Path(folder) / "results.json"
        with before.open("wb") as out:
            command = ["git", "-C", str(project.root), "show", f"{base}:{path}"]
            subprocess.run(command, stdout=out, check=True)  # noqa: S603
        accepted = results.read_book(before)
    return results.compare(results.read_book(project.results), accepted)


def claims_by_value() -> dict[str, list[str]]:
    """Map each value that claims read, CHAPTER::KEY, to the numbers of these claims in the ledger."""
    readers: dict[str, list[str]] = {}
    for claim in claims.read_claims():
        for key in claim.keys.values():
            readers.setdefault(key, []).append(f"{claim.number} ({claim.name})")
    return readers


def changed_figures(before: Path, after: Path) -> list[str]:
    """List the figures, NAME of CHAPTER, that differ between two built books, or are in one of them alone."""
    named = {path.relative_to(folder) for folder in (before, after) for path in folder.rglob("notebooks/*/*.svg")}

    def content(path: Path) -> bytes | None:
        return path.read_bytes() if path.exists() else None

    return [str(name) for name in sorted(named) if content(before / name) != content(after / name)]


def summarize(project: Project, base: str, before: Path | None) -> str:
    """Write the summary: a table of values, one of figures."""
    differences, readers = compare_values(project, base), claims_by_value()
    lines = [f"### Values that differ from those accepted at {base[:12]}: {len(differences)}", ""]
    if differences:
        lines += ["| value | before | after | claims that read it |", "| --- | --- | --- | --- |"]
    for each in differences[:MOST]:
        old, new = (recorded.value if recorded else "–" for recorded in (each.expected, each.built))
        name = f"{each.chapter}::{each.key}"
        lines.append(f"| {name} | {old} | {new} | {', '.join(readers.get(name, []))} |")
    if len(differences) > MOST:
        lines.append(f"\n{len(differences) - MOST} more are not listed.")
    if before:
        figures = changed_figures(before, project.html)
        lines += ["", f"### Figures that differ: {len(figures)}", ""]
        lines += [f"- `{name}`: before and after in the artifact `changed`" for name in figures[:MOST]]
        for name in figures:
            for folder, when in ((before, "before"), (project.html, "after")):
                if (folder / name).exists():
                    copy = project.build / "changed" / when / name
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes((folder / name).read_bytes())
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a commit")
    parser.add_argument("--before", type=Path, help="a folder of pages that were built earlier")
    given = parser.parse_args()
    print(summarize(Project(), given.base, given.before))


if __name__ == "__main__":
    main()
