"""Authors, licence and addresses as ``CITATION.cff`` has them: for the pages, and for the box that says how to cite."""

import textwrap
from typing import Any

import yaml

from companion.project import Project
from rbp.errors import DataError

NEEDED = ("title", "authors", "version", "date-released", "license", "references")


def read_citation(project: Project) -> dict[str, Any]:
    """Read the entries of ``CITATION.cff``. Raises DataError for what is none, or lacks what the pages show."""
    path = project.root / "CITATION.cff"
    try:
        entries: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        missing = [name for name in NEEDED if not entries.get(name)]
    except FileNotFoundError:
        fault = "there is no CITATION.cff, which names the book's authors"
        raise DataError(fault, str(path), "Restore it: git checkout -- CITATION.cff.") from None
    except (AttributeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"these are no entries in YAML: {error}", "CITATION.cff", "Correct it.") from None
    if missing:
        raise DataError(f"{missing[0]} is missing", "CITATION.cff", "Add it.")
    return entries


def configuration(project: Project) -> dict[str, Any]:
    """Return Jupyter Book's configuration: ``_config.yml`` with the authors and addresses of ``CITATION.cff``."""
    citation = read_citation(project)
    authors = ", ".join(
        author.get("name") or f"{author.get('given-names', '')} {author.get('family-names', '')}".strip()
        for author in citation["authors"]
    )
    config: dict[str, Any] = yaml.safe_load((project.root / "_config.yml").read_text(encoding="utf-8"))
    config |= {"author": authors, "copyright": f"{str(citation['date-released'])[:4]}, {authors}"}
    config["repository"]["url"] = citation.get("repository-code", "")
    config["html"]["baseurl"] = citation.get("url", "")
    return config


def bibtex(project: Project) -> str:
    """Return two BibTeX entries: the book, and the paper that it examines."""
    citation = read_citation(project)
    paper = citation["references"][0]
    numbers = [identifier["value"] for identifier in paper.get("identifiers", [])]
    eprint = next((number.removeprefix("arXiv:") for number in numbers if number.startswith("arXiv:")), "")
    book = {
        "title": citation["title"],
        "author": " and ".join(map(_sorted_name, citation["authors"])),
        "year": str(citation["date-released"])[:4],
        "note": f"Version {citation['version']}",
        "url": citation.get("url") or citation.get("repository-code"),
    }
    examined = {
        "title": paper["title"],
        "author": " and ".join(map(_sorted_name, paper["authors"])),
        "year": paper["year"],
        "eprint": eprint,
        "archivePrefix": "arXiv" if eprint else "",
        "url": "" if eprint else paper.get("url"),
    }
    key = f"{paper['authors'][0]['family-names'].lower()}{paper['year']}"
    return f"{_entry('doesrankscale', book)}\n\n{_entry(key, examined)}"


def bibtex_box(project: Project) -> str:
    """Return the two BibTeX entries as a box for a page, with a line on this version."""
    citation = read_citation(project)
    version = f"Version {citation['version']}, {citation['date-released']}, {citation['license']} licence."
    return f"```bibtex\n{bibtex(project)}\n```\n\n{version}"


def _sorted_name(author: dict[str, str]) -> str:
    """Write an author as BibTeX takes it: family name first, an entity in braces."""
    if "name" in author:
        return f"{{{author['name']}}}"
    return ", ".join(filter(None, [author.get("family-names"), author.get("given-names")]))


def _entry(key: str, fields: dict[str, Any]) -> str:
    """Return a BibTeX entry whose lines fit a phone; empty fields are left out."""
    lines = [
        textwrap.fill(f"{name} = {{{value}}}", 42, initial_indent="  ", subsequent_indent="    ")
        for name, value in fields.items()
        if value
    ]
    return f"@misc{{{key},\n" + ",\n".join(lines) + "\n}"
