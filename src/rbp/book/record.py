"""What is said of the work wherever it is built, cited or kept: the facts of ``record.toml``, and what follows."""

import html
import json
import re
import textwrap
import tomllib
from datetime import date
from typing import Annotated, Any

import yaml
from pybtex.database import Entry, parse_file
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rbp.core import __version__
from rbp.core.errors import DataError
from rbp.core.paths import Project

NAMELESS = "The companion's authors"
"""Who they are while ``record.toml`` has no authors."""

_STRICT = ConfigDict(extra="forbid", frozen=True)
_Text = Annotated[str, Field(min_length=1)]


class Author(BaseModel):
    """One author; `orcid` as its sixteen digits in groups."""

    model_config = _STRICT
    family: _Text
    given: str = ""
    orcid: Annotated[str, Field(pattern=r"^(\d{4}-\d{4}-\d{4}-\d{3}[\dX])?$")] = ""
    affiliation: str = ""

    @property
    def name(self) -> str:
        """As one says it."""
        return f"{self.given} {self.family}".strip()


class Facts(BaseModel):
    """The facts of ``record.toml``, which says what each is."""

    model_config = _STRICT
    title: _Text
    subtitle: str = ""
    abstract: _Text
    keywords: list[_Text]
    released: date
    licence: _Text
    licence_of_prose: _Text
    examines: _Text
    # on hosts that the pages' theme has buttons for
    repository: Annotated[str, Field(pattern=r"^(https://[^/]*(github|gitlab)[^/]*/\S+/[^/\s]+)?$")] = ""
    book: Annotated[str, Field(pattern=r"^(https?://\S+/)?$")] = ""
    authors: list[Author] = []

    @property
    def full_title(self) -> str:
        """Title and subtitle."""
        return f"{self.title} {self.subtitle}".strip()

    @property
    def version(self) -> str:
        """The package's."""
        return __version__

    @property
    def names(self) -> list[str]:
        """The authors' names, in order; never empty."""
        return [author.name for author in self.authors] or [NAMELESS]

    @property
    def owner(self) -> str:
        """Whose it is, as a licence says it."""
        return ", ".join(self.names)


def facts(project: Project) -> Facts:
    """What ``record.toml`` says. Raises DataError, with the first fact that is wrong."""
    path = project.root / "record.toml"
    try:
        return Facts.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        what = "there is no record.toml, which says whose the book is"
        raise DataError(what, str(path), "Restore it: git checkout -- record.toml.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        remedy = "The file's comments say what each fact is; an empty one is left out."
        raise DataError(f"{where}: {first['msg']}", "record.toml", remedy) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"this is not TOML: {error}", "record.toml") from None


def configuration(project: Project) -> dict[str, Any]:
    """Jupyter Book's configuration: ``_config.yml`` with the facts filled in."""
    said = facts(project)
    config: dict[str, Any] = yaml.safe_load((project.root / "_config.yml").read_text(encoding="utf-8"))
    config |= {"title": said.title, "author": ", ".join(author.name for author in said.authors)}
    config["copyright"] = f"{said.released.year}, {said.owner}" if said.authors else f"{said.released.year}"
    config["repository"]["url"] = said.repository
    config["html"] |= {"baseurl": said.book, "extra_footer": _footer(said)}
    return config


def _footer(said: Facts) -> str:
    def link(licence: str) -> str:
        return f'<a rel="license" href="https://spdx.org/licenses/{licence}.html">{licence}</a>'

    return f"<p>Prose and figures: {link(said.licence_of_prose)}. Code: {link(said.licence)}.</p>"


def _paper(project: Project, said: Facts) -> Entry:
    """The entry of the references for the paper that is examined. Raises DataError without one."""
    entries = parse_file(project.book / "references.bib", "bibtex").entries.values()
    found: Entry | None = next((entry for entry in entries if entry.fields.get("eprint") == said.examines), None)
    if found is None:
        what = f"no entry has the eprint {said.examines}"
        raise DataError(what, "book/references.bib", "Add it, or name another paper in record.toml.")
    return found


def _names(entry: Entry) -> list[tuple[str, str]]:
    """Given and family names of the authors of an entry of the references."""
    return [(" ".join(each.first_names), " ".join(each.last_names)) for each in entry.persons["author"]]


def bibtex(project: Project) -> str:
    """How to cite the work, and the paper that it examines, as two entries."""
    said = facts(project)
    paper = _paper(project, said)
    own = {"title": said.full_title, "year": str(said.released.year), "note": f"Version {said.version}"}
    own["author"] = " and ".join(f"{each.family}, {each.given}".rstrip(", ") for each in said.authors)
    own["author"] = own["author"] or f"{{{NAMELESS}}}"
    own["url"] = said.book or said.repository
    theirs = {name: paper.fields[name] for name in ("title", "year", "eprint", "archivePrefix")}
    theirs["author"] = " and ".join(f"{family}, {given}" for given, family in _names(paper))
    return "\n\n".join(_bibtex(key, fields) for key, fields in (("doesrankscale", own), (paper.key, theirs)))


def citation(project: Project) -> str:
    """The same for a page, with a line on this version."""
    said = facts(project)
    about = f"Version {said.version}, {said.released}, {said.licence} licence."
    return f"```bibtex\n{bibtex(project)}\n```\n\n{about}"


def _bibtex(key: str, fields: dict[str, str]) -> str:
    """An entry whose lines fit a phone; empty fields are left out."""
    lines = []
    for name in ("title", "author", "year", "eprint", "archivePrefix", "note", "url"):
        if value := fields.get(name):
            lines.append(textwrap.fill(f"{name} = {{{value}}}", 42, initial_indent="  ", subsequent_indent="    "))
    return f"@misc{{{key},\n" + ",\n".join(lines) + "\n}"


# ── The files that are written from the facts


def written(project: Project) -> dict[str, str]:
    """What `rbp record` writes of the facts alone, by the files' names: LICENSE, CITATION.cff, .zenodo.json."""
    said = facts(project)
    licence = (project.root / "LICENSE").read_text(encoding="utf-8")
    line = f"Copyright (c) {said.released.year} {said.owner}"
    return {
        "LICENSE": re.sub(r"^Copyright \(c\) .*$", lambda _: line, licence, count=1, flags=re.MULTILINE),
        "CITATION.cff": _WRITTEN + yaml.safe_dump(_cff(project, said), sort_keys=False, allow_unicode=True, width=120),
        ".zenodo.json": json.dumps(_zenodo(said), indent=1, ensure_ascii=False) + "\n",
    }


_WRITTEN = "# Written by `rbp record` from record.toml: change that.\n"


def _filled(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value}


def _cff(project: Project, said: Facts) -> dict[str, Any]:
    """The citation in CFF 1.2.0."""
    paper = _paper(project, said)
    about = {
        "title": paper.fields["title"],
        "authors": [{"family-names": family, "given-names": given} for given, family in _names(paper)],
        "year": int(paper.fields["year"]),
        "url": paper.fields["url"],
        "identifiers": [{"type": "other", "value": f"arXiv:{said.examines}"}],
    }
    authors = [
        _filled(**{"family-names": each.family, "given-names": each.given, "affiliation": each.affiliation})
        | _filled(orcid=each.orcid and f"https://orcid.org/{each.orcid}")
        for each in said.authors
    ]
    return {
        "cff-version": "1.2.0",
        "message": "If you use this companion, please cite it, and the paper that it examines.",
        "title": said.full_title,
        "type": "software",
        "version": said.version,
        "date-released": said.released,
        "license": said.licence,
        "authors": authors or [{"name": NAMELESS}],
        **_filled(**{"repository-code": said.repository, "url": said.book}),
        "keywords": said.keywords,
        "abstract": said.abstract.strip(),
        "references": [{"type": "article", **about}],
    }


def _zenodo(said: Facts) -> dict[str, Any]:
    """The deposit's metadata in the form that Zenodo reads from a repository."""
    creators = [
        _filled(name=f"{each.family}, {each.given}".rstrip(", "), orcid=each.orcid, affiliation=each.affiliation)
        for each in said.authors
    ]
    related = [(f"arXiv:{said.examines}", "references"), (said.repository, "isSupplementTo")]
    related.append((said.book, "isSupplementedBy"))
    return {
        "title": said.full_title,
        "upload_type": "software",
        "description": f"<p>{html.escape(said.abstract.strip(), quote=False)}</p>",
        "creators": creators or [{"name": NAMELESS}],
        "access_right": "open",
        "license": said.licence,
        "version": said.version,
        "publication_date": said.released.isoformat(),
        "keywords": said.keywords,
        "related_identifiers": [{"identifier": each, "relation": relation} for each, relation in related if each],
    }
