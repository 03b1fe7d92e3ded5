"""What moved between a book with the pins and one with the newest versions, and how a page tells it."""

import json
from pathlib import Path
from typing import Any

import pytest
from mini import write_chapter

from rbp.book import newest, results
from rbp.book.site import made_page
from rbp.core.errors import DataError
from rbp.core.paths import Project

PAGE = "<html><body><nav>{head}</nav><article><p>{words}</p>{figure}</article></body></html>"
ABOUT: dict[str, Any] = {"date": "2026-11-24", "commit": "abc", "python": "3.11.7", "system": "Linux x86_64"}
ABOUT |= {"packages": 130, "versions": {"torch": ("2.13.0", "2.15.0")}, "held": ["jupyter-book<2"]}


def built(folder: Path, values: dict[str, Any], **pages: dict[str, str]) -> Project:
    """A book as far as it is compared: one chapter's values, and pages."""
    project = Project(folder)
    results.write_book(project.results, {"law": {key: results.recorded(key, each) for key, each in values.items()}})
    for name, parts in pages.items():
        path = project.html / name.replace("_", "/", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"head": "", "words": "Words.", "figure": "<svg><path d='M0 0'/></svg>"} | parts
        path.with_suffix(".html").write_text(PAGE.format(**whole))
    return project


def test_only_what_a_reader_sees_is_said_to_move(tmp_path: Path) -> None:
    one: dict[str, Any] = {"alpha": 0.5, "verdict.01": "holds", "gone": 1}
    other: dict[str, Any] = {"alpha": 0.5 * (1 + 1e-12), "verdict.01": "holds in part", "new": 2.5}
    same: dict[str, dict[str, str]] = {f"book_{name}": {} for name in ("same", "theme", "words", "drawn")}
    pinned = built(tmp_path / "pinned", one, **same, book_made={}, book_old={})
    other_pages = {"book_theme": {"head": "A theme"}, "book_words": {"words": "Other words."}, "book_new": {}}
    other_pages |= {"book_drawn": {"figure": "<svg><path d='M1 0'/></svg>"}, "book_made": {"words": "Another commit"}}
    found = newest.compare(pinned, built(tmp_path / "newest", other, **same | other_pages))
    assert found["values"] == 3
    moved = [(each.key, each.pinned, each.newest) for each in found["moved"]]
    assert moved == [("gone", 1, None), ("new", None, 2.5), ("verdict.01", "holds", "holds in part")]
    assert found["pages"] == {
        "book/drawn.html": ["figures"],
        "book/new.html": ["only with the newest"],
        "book/old.html": ["only with the pins"],
        "book/words.html": ["words"],
    }
    assert not newest.Newest(**ABOUT, **found).as_before


def test_the_same_book_has_not_moved(tmp_path: Path) -> None:
    one, other = (built(tmp_path / name, {"alpha": 0.5}, book_one={}) for name in ("pinned", "newest"))
    found = newest.Newest(**ABOUT, **newest.compare(one, other))
    assert found.as_before
    assert not found.model_copy(update={"failed": "no"}).as_before


def told(folder: Path, **fields: Any) -> str:
    project = Project(folder)
    write_chapter(project, "law")
    project.book.mkdir()
    found = newest.Newest(**ABOUT | fields)
    (project.book / "newest.json").write_text(json.dumps(found.model_dump()))
    assert newest.read(project) == found
    section = newest.section(project)
    assert section in made_page(project)
    return section


def test_the_page_tells_what_moved(tmp_path: Path) -> None:
    moved = [{"chapter": "law", "key": "verdict.01", "pinned": "holds", "newest": "holds in part"}]
    moved.append({"chapter": "law", "key": "alpha", "pinned": 0.5, "newest": None})
    said = told(tmp_path, values=1500, moved=moved, pages={"book/words.html": ["words", "figures"]})
    assert "On 2026-11-24 the book of commit `abc`" in said
    assert "1 differs from the pins: torch 2.13.0 → 2.15.0." in said
    assert "within `jupyter-book<2`" in said
    assert "**Of 1500 recorded values 2 moved,** 1 of them a verdict." in said
    assert "| law | `alpha` | 0.5 | None |" in said
    assert "Pages that differ: book/words.html (words and figures)." in said


def test_the_page_tells_that_nothing_moved(tmp_path: Path) -> None:
    said = told(tmp_path, values=1500, versions={})
    assert "none differs from the pins" in said
    assert "All 1500 recorded values agree, and so do the verdicts. All pages show the same words and figures." in said
    assert "<details" not in said


def test_the_page_tells_why_there_was_no_book(tmp_path: Path) -> None:
    said = told(tmp_path, failed="[3/18] law failed: ImportError")
    assert "**It could not be built:**" in said
    assert "[3/18] law failed: ImportError" in said
    assert "agree" not in said


def test_without_such_a_build_the_page_says_nothing_and_a_broken_file_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path)
    write_chapter(project, "law")
    assert newest.section(project) == ""
    assert "newest versions" not in made_page(project)
    project.book.mkdir()
    for text, word in (("{", "JSON"), ('{"date": 3}', "date"), (json.dumps(ABOUT | {"other": 1}), "other")):
        (project.book / "newest.json").write_text(text)
        with pytest.raises(DataError, match=word):
            newest.section(project)
