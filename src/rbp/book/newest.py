"""The book built with the newest versions of all packages (`make newest`), beside the one with the pins: what moved.

``book/newest.json`` keeps the last such build, for the page on how the book was made.
"""

from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from pydantic import BaseModel, ConfigDict, ValidationError

from rbp.book import results
from rbp.core.errors import DataError
from rbp.core.paths import Project

VERDICT = "verdict."
"""How the keys of the values begin that are a claim's verdict."""

OF_THE_BUILD = ("book/made.html",)
"""Pages that tell of their own build, and always differ."""


class Moved(BaseModel):
    """A value, as `results.Difference` has it; None where a build lacks it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    chapter: str
    key: str
    pinned: results.Value | None
    newest: results.Value | None


class Newest(BaseModel):
    """A build with the newest versions.

    held: requirements that pyproject.toml bounds, so that newer ones were not tried. packages: how many were compared;
    versions: pinned and newest, of those that differ. failed: what kept the book from being built, or "". values: how
    many were compared; pages: what differs of each page that does, words or figures, or that only one build has it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: str
    commit: str
    python: str
    system: str
    held: list[str] = []
    packages: int
    versions: dict[str, tuple[str, str]]
    failed: str = ""
    values: int = 0
    moved: list[Moved] = []
    pages: dict[str, list[str]] = {}

    @property
    def as_before(self) -> bool:
        """Whether it was built, and nothing moved."""
        return not (self.failed or self.moved or self.pages)


def compare(pinned: Project, newest: Project) -> dict[str, Any]:
    """What the newest book's values and pages differ in from the pinned ones: `Newest`'s fields of these names."""
    before, after = results.read_book(pinned.results), results.read_book(newest.results)
    moved = [
        Moved(
            chapter=each.chapter,
            key=each.key,
            pinned=each.expected.value if each.expected else None,
            newest=each.built.value if each.built else None,
        )
        for each in results.compare(after, before)
    ]
    names = {path.relative_to(html).as_posix() for html in (pinned.html, newest.html) for path in html.glob("*/*.html")}
    pages = {name: _differs(pinned.html / name, newest.html / name) for name in sorted(names - {*OF_THE_BUILD})}
    found = {name: what for name, what in pages.items() if what}
    return {"values": sum(map(len, before.values())), "moved": moved, "pages": found}


def _differs(before: Path, after: Path) -> list[str]:
    """What differs of two pages, as a reader sees it."""
    if not (before.exists() and after.exists()):
        return ["only with the pins" if before.exists() else "only with the newest"]
    if before.read_bytes() == after.read_bytes():
        return []
    words, figures = zip(*map(_seen, (before, after)), strict=True)
    return ["words"] * (words[0] != words[1]) + ["figures"] * (figures[0] != figures[1])


def _seen(page: Path) -> tuple[list[str], list[str]]:
    """The words of a page's article, and its drawings."""
    article = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").select_one("article") or BeautifulSoup()
    drawn = [str(each.extract()) for each in article.select("svg")]
    for script in article.select("script, style"):
        script.decompose()
    return article.get_text(" ").split(), drawn


def read(project: Project) -> Newest | None:
    """The last build that was kept, if there is one. Raises DataError for a file that is none."""
    path = project.book / "newest.json"
    if not path.exists():
        return None
    try:
        return Newest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        what = f"{'.'.join(map(str, error.errors()[0]['loc']))}: {error.errors()[0]['msg']}"
        raise DataError(what, "book/newest.json", "Make it again: make newest.") from None


def section(project: Project) -> str:
    """What the last build with the newest versions showed, as Markdown; "" for none."""
    found = read(project)
    if found is None:
        return ""
    held = f" (within {', '.join(f'`{each}`' for each in found.held)})" if found.held else ""
    changed = ", ".join(f"{name} {old} → {new}" for name, (old, new) in found.versions.items())
    lines = [
        f"On {found.date} the book of commit `{found.commit}` was built again with the newest versions that go "
        f"together{held}, on Python {found.python}, {found.system}. Of {found.packages} packages "
        + (
            f"{len(found.versions)} {'differs' if len(found.versions) == 1 else 'differ'} from the pins: {changed}."
            if changed
            else "none differs from the pins."
        )
    ]
    if found.failed:
        lines.append(f"**It could not be built:**\n\n```text\n{found.failed.replace('```', '')}\n```")
        return _below("\n\n".join(lines))
    verdicts = [each for each in found.moved if each.key.startswith(VERDICT)]
    lines.append(f"{_told(found, len(verdicts))} {_pages(found.pages)}")
    rows = [f"| {each.chapter} | `{each.key}` | {each.pinned} | {each.newest} |" for each in found.moved]
    if rows:
        table = "\n".join(["| Chapter | Value | Pinned | Newest |", "| --- | --- | --- | --- |", *rows])
        head = f"<summary>The {len(rows)} values that moved</summary>"
        lines.append(f'<details class="rbp-told">{head}\n\n{table}\n\n</details>')
    return _below("\n\n".join(lines))


def _below(text: str) -> str:
    return f"\n## With the newest versions\n\n{text}\n"


def _told(found: Newest, verdicts: int) -> str:
    if not found.moved:
        return f"All {found.values} recorded values agree, and so do the verdicts."
    own = f"{verdicts or 'none'} of them {'a verdict' if verdicts < 2 else 'verdicts'}"
    return f"**Of {found.values} recorded values {len(found.moved)} moved,** {own}."


def _pages(pages: dict[str, list[str]]) -> str:
    if not pages:
        return "All pages show the same words and figures."
    listed = "; ".join(f"{name} ({' and '.join(what)})" for name, what in pages.items())
    return f"Pages that differ: {listed}."
