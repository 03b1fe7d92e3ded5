"""Every page as it is written: figures, links, downloads and titles."""

import io
import re
import sys
from urllib.parse import unquote, urldefrag, urljoin

import pandas as pd

from companion.execute.prose import chapter_numbers
from companion.project import ROOT, Project

NUMBERS = {f"notebooks/{name}.html": number for name, number in chapter_numbers(Project()).items()}


def test_links_lead_somewhere_and_downloads_are_whole(book, soups):
    every = {page: [element["id"] for element in soup.select("[id]")] for page, soup in soups.items()}
    ids = {page: set(each) for page, each in every.items()}
    downloads = 0
    for page, soup in soups.items():
        assert len(ids[page]) == len(every[page]), page
        for link in soup.select("a[href]"):
            href = link["href"]
            if re.match(r"[a-z]+:", href) or href == "#":
                continue
            path, anchor = urldefrag(unquote(urljoin(page, href)))
            target = book / path
            assert target.is_file(), (page, href)
            if anchor and path.endswith(".html"):
                assert anchor in ids[path], (page, href)
            if link.has_attr("download") and path.endswith(".csv"):
                downloads += 1
                assert len(pd.read_csv(io.BytesIO(target.read_bytes()))) > 0, href
    assert downloads >= 20


def test_each_page_has_a_title_and_a_description(soups):
    for page, soup in soups.items():
        description = soup.select_one("meta[name=description]")["content"].strip()
        assert description, page
        number = f"{NUMBERS[page]}. " if page in NUMBERS else ""
        assert soup.select_one("title").get_text().startswith(number), page
        assert soup.select_one("main h1").get_text().startswith(number), page


def test_no_path_of_the_machine_that_built_it_is_published(book):
    """In no file: a warning of a library, say, has one."""
    paths = "|".join(map(re.escape, {f"{ROOT}/", f"{sys.prefix}/", "/site-packages/", "/dist-packages/"}))
    named = re.compile(rf"{paths}|/(home|Users)/\w+/|/r[o]ot/".encode())
    found = {path: named.search(path.read_bytes()) for path in [*book.rglob("*"), Project().results] if path.is_file()}
    assert {str(path.relative_to(ROOT)): match[0] for path, match in found.items() if match} == {}
