"""Authors, licence and addresses as ``CITATION.cff`` has them: for the pages, and for the box that says how to cite."""

import textwrap
from datetime import date
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from companion.project import Project
from rbp.errors import DataError

_Text = Annotated[str, Field(min_length=1)]


class _Entry(BaseModel):
    """A table of the file; its keys are written with hyphens, and unknown keys are ignored."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"), coerce_numbers_to_str=True, frozen=True
    )


class Author(_Entry):
    """A person (family and given names), or an entity, which has a `name` alone."""

    name: str = ""
    family_names: str = ""
    given_names: str = ""

    @property
    def full_name(self) -> str:
        """The given names and the family name, or an entity's name."""
        return self.name or f"{self.given_names} {self.family_names}".strip()

    @property
    def sorted_name(self) -> str:
        """The name as BibTeX takes it: family name first, an entity in braces."""
        return f"{{{self.name}}}" if self.name else f"{self.family_names}, {self.given_names}".rstrip(", ")


class Identifier(_Entry):
    """An identifier, such as arXiv:2510.20387."""

    value: _Text


class Reference(_Entry):
    """A work that is referred to, such as the paper that the book examines."""

    title: _Text
    authors: Annotated[list[Author], Field(min_length=1)]
    year: int
    url: str = ""
    identifiers: list[Identifier] = []


class Citation(_Entry):
    """The content of ``CITATION.cff``, in the Citation File Format 1.2.0."""

    title: _Text
    version: _Text
    date_released: date
    license: _Text
    authors: Annotated[list[Author], Field(min_length=1)]
    # on hosts that the pages' theme has buttons for
    repository_code: Annotated[str, Field(pattern=r"^(https://[^/]*(github|gitlab)[^/]*/\S+/[^/\s]+)?$")] = ""
    url: Annotated[str, Field(pattern=r"^(https?://\S+/)?$")] = ""
    references: Annotated[list[Reference], Field(min_length=1)]


def read_citation(project: Project) -> Citation:
    """Read ``CITATION.cff``. Raises DataError, with the first entry that is wrong."""
    path = project.root / "CITATION.cff"
    try:
        return Citation.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        what = "there is no CITATION.cff, which names the book's authors"
        raise DataError(what, str(path), "Restore it: git checkout -- CITATION.cff.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise DataError(f"{where}: {first['msg']}", "CITATION.cff", "Correct it; empty entries are left out.") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"this is not YAML: {error}", "CITATION.cff", "Correct it.") from None


def configuration(project: Project) -> dict[str, Any]:
    """Return Jupyter Book's configuration: ``_config.yml`` with the authors and addresses of ``CITATION.cff``."""
    citation = read_citation(project)
    authors = ", ".join(author.full_name for author in citation.authors)
    config: dict[str, Any] = yaml.safe_load((project.root / "_config.yml").read_text(encoding="utf-8"))
    config |= {"author": authors, "copyright": f"{citation.date_released.year}, {authors}"}
    config["repository"]["url"] = citation.repository_code
    config["html"]["baseurl"] = citation.url
    return config


def bibtex(project: Project) -> str:
    """Return two BibTeX entries: the book, and the paper that it examines."""
    citation = read_citation(project)
    paper = citation.references[0]
    eprint = next((each.value.removeprefix("arXiv:") for each in paper.identifiers if "arXiv:" in each.value), "")
    book = {
        "title": citation.title,
        "author": _authors(citation.authors),
        "year": str(citation.date_released.year),
        "note": f"Version {citation.version}",
        "url": citation.url or citation.repository_code,
    }
    examined = {
        "title": paper.title,
        "author": _authors(paper.authors),
        "year": str(paper.year),
        "eprint": eprint,
        "archivePrefix": "arXiv" if eprint else "",
        "url": "" if eprint else paper.url,
    }
    key = f"{paper.authors[0].family_names.lower()}{paper.year}"
    return f"{_entry('doesrankscale', book)}\n\n{_entry(key, examined)}"


def bibtex_box(project: Project) -> str:
    """Return the two BibTeX entries as a box for a page, with a line on this version."""
    citation = read_citation(project)
    about = f"Version {citation.version}, {citation.date_released}, {citation.license} licence."
    return f"```bibtex\n{bibtex(project)}\n```\n\n{about}"


def _authors(authors: list[Author]) -> str:
    return " and ".join(author.sorted_name for author in authors)


def _entry(key: str, fields: dict[str, str]) -> str:
    """Return a BibTeX entry whose lines fit a phone; empty fields are left out."""
    lines = [
        textwrap.fill(f"{name} = {{{value}}}", 42, initial_indent="  ", subsequent_indent="    ")
        for name, value in fields.items()
        if value
    ]
    return f"@misc{{{key},\n" + ",\n".join(lines) + "\n}"
