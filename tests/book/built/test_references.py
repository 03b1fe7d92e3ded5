"""Citations lead to the list of references, on the page of related work."""

from pathlib import Path

from bs4 import BeautifulSoup

RELATED = "book/related.html"


def test_every_citation_leads_to_its_reference(book: Path, pages: list[str]) -> None:
    read = {page: BeautifulSoup((book / page).read_text(encoding="utf-8"), "html.parser") for page in pages}
    references = {str(each["id"]) for each in read[RELATED].select(".citation[id]")}
    assert references
    cited = set()
    for page, soup in read.items():
        for citation in soup.select(".bibtex-citation"):
            links = [str(link["href"]).partition("#") for link in citation.select("a[href]")]
            assert links, f"{page}: a citation without a link"
            for target, _, anchor in links:
                assert ((book / page).parent / target).resolve() == (book / RELATED).resolve() or not target, page
                assert target or page == RELATED, page
                cited.add(anchor)
    assert cited == references
