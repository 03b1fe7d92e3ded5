"""Pages opened in a browser, alone or in the book: what fails in them, or leaves them, fails the test."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from companion.project import ROOT
from rbp.report.page import STYLE

STATIC = ROOT / "book" / "_static"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def write_page(folder: Path, body: str, *scripts: str) -> str:
    """A page of this body with the book's style and these scripts of its; gives its address."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    for style in (STYLE, STATIC / "rbp.css"):
        head += f'<link rel="stylesheet" href="{style.as_uri()}">'
    head += "<style>figure { padding: 0.5rem; }</style>"  # as the book's theme has it
    head += "".join(f'<script src="{(STATIC / name).as_uri()}"></script>' for name in scripts)
    page = folder / "page.html"
    page.write_text(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>", encoding="utf-8")
    return page.as_uri()


@contextmanager
def watched(browser: Browser, address: str, *inside: str, **options: Any) -> Iterator[Page]:
    """A tab at an address, which asks for nothing but data and what begins with one of `inside`."""
    with closing(browser.new_context(**options)) as context:
        tab, wrong = context.new_page(), list[str]()
        own = (*inside, "data:", "blob:")
        tab.on("request", lambda each: None if each.url.startswith(own) else wrong.append(each.url))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        tab.goto(address)
        yield tab
    assert not wrong, wrong
