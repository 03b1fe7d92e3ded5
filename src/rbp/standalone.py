"""One executed chapter as one HTML file that opens offline: everything put into it, and no other page beside it."""

import tempfile
from pathlib import Path

from rbp import excerpt, onepage
from rbp.chapters import Chapter
from rbp.files import write_file
from rbp.paths import Project


def render(project: Project, chapter: Chapter, folder: Path) -> Path:
    """Write ``NN_name.html`` beside the executed ``NN_name.ipynb`` in ``folder``; returns its path.

    The page loads nothing; it links to the figures' files in ``NN_name/`` beside it. Raises RbpError if it
    cannot be built.
    """
    name = chapter.name
    text = excerpt.page_of(project, folder / f"{name}.ipynb")
    with tempfile.TemporaryDirectory(prefix="rbp-page-") as temporary:
        html = excerpt.build(project, {f"notebooks/{name}.ipynb": text}, Path(temporary).resolve())
        page = html / "notebooks" / f"{name}.html"
        soup = onepage.read(page)
        onepage.drop_navigation(soup)
        onepage.inline(soup, page.parent)
        onepage.keep_links(soup, folder)
    target = folder / f"{name}.html"
    write_file(target, str(soup))
    return target
