"""The repository's address, set in one place, turns the buttons on, and they lead to files that are there."""

import re
import shutil
from pathlib import Path

from rbp.book.site import jupyter_book
from rbp.core.paths import ROOT, Project

ADDRESS = "https://github.com/somebody/companion"


def _addresses(page: Path) -> set[str]:
    return set(re.findall(r'href="(https://(?:github\.com/somebody|colab|mybinder)[^"]*)"', page.read_text()))


def test_the_buttons_appear_with_the_address_and_lead_to_the_sources(book: Path, tmp_path: Path) -> None:
    assert _addresses(book / "notebooks" / "holds.html") == set()
    config = tmp_path / "_config.yml"
    config.write_text((ROOT / "_config.yml").read_text().replace('url: ""', f'url: "{ADDRESS}"', 1))
    staged, source = Project().build / "source", tmp_path / "source"  # two pages of it: each has the same buttons
    shutil.copytree(staged / "book", source / "book")
    (source / "notebooks").mkdir()
    shutil.copy(staged / "notebooks" / "holds.ipynb", source / "notebooks")
    toc = "format: jb-book\nroot: book/welcome\nchapters:\n  - file: notebooks/holds\n"
    (source / "_toc.yml").write_text(toc)
    html = jupyter_book(source, config, tmp_path / "built", strict=False)
    found = _addresses(html / "notebooks" / "holds.html")
    sources = [a for a in found if "/blob/main/" in a]
    assert len(sources) == 2  # the source itself, and Colab
    for address in sources:
        assert (ROOT / re.sub(r".*/blob/main/|\?.*", "", address)).is_file(), address
    assert any(a.startswith("https://mybinder.org/v2/gh/somebody/companion/main") for a in found)
    assert any("/issues/" in a for a in found)
