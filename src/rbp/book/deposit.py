"""What an archive takes: the licence of every data file, Croissant and RO-Crate metadata, and the release itself.

Sources: Croissant 1.0 (MLCommons); RO-Crate 1.1, with the profiles Process Run Crate and Workflow Run Crate (0.5), and
Workflow RO-Crate (1.0).
"""

import csv
import io
import mimetypes
import os
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as arrow
import pyarrow.csv
import pyarrow.parquet

from rbp.book import record, results, site
from rbp.book.build import chapter_inputs, overrides
from rbp.book.chapters import all_chapters
from rbp.core.errors import DataError, RbpError
from rbp.core.files import (
    canonical_json,
    files_below,
    folder_beside,
    parse_json,
    sha256,
    swap_in,
    write_file,
    write_json,
)
from rbp.core.paths import Project

LIMIT = 160_000_000
"""Bytes that an archive may have at most."""

FACTS = "facts"
FACTS_MEAN = (
    "Numbers, taken as facts from a source that states no licence: cite it, and pass on no more of it than these."
)
HEAVY = ("data/ladder/families/", "data/ladder/families-ranks/")
"""What the second archive has: weights, and the rank of every token."""

SUMS = "SHA256SUMS"
"""The file of checksums, as `sha256sum -c` reads it: of what the archives hold, and of the archives."""

SETS = ("published", "outside", "ladder")
"""The folders below ``data/`` that are data sets of their own, each with a README."""


class Licence(NamedTuple):
    """Of a data file: the licence's name (SPDX's, or `FACTS`), and the address of what it was taken from ("": ours)."""

    name: str
    source: str

    @property
    def address(self) -> str:
        """Where the licence can be read; "" for facts."""
        return "" if self.name == FACTS else f"https://spdx.org/licenses/{self.name}.html"


def licences(project: Project) -> dict[str, Licence]:
    """The licence of every file below ``data/``, by its path from the root, as ``data/licences.csv`` says.

    Raises DataError for a file that no line names, or two do, and for a line that names none.
    """
    data, table = project.root / "data", "data/licences.csv"
    found: dict[str, Licence] = {}
    for row in csv.DictReader(io.StringIO((project.root / table).read_text(encoding="utf-8"))):
        named = [path.relative_to(project.root).as_posix() for path in data.glob(row["files"]) if path.is_file()]
        if not named:
            raise DataError(f"no file is called {row['files']}", table, "Take the line out.")
        if twice := next((path for path in named if path in found), None):
            raise DataError(f"two lines name {twice}", table, "Name it in one of them.")
        found |= dict.fromkeys(named, Licence(row["licence"], row["source"]))
    files = (path.relative_to(project.root).as_posix() for path in files_below(data))
    if bare := next((path for path in files if path not in found), None):
        raise DataError(f"no licence is stated of {bare}", table, "Add a line: only what has one is passed on.")
    return found


# ── Croissant: what the tables hold

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{
        name: f"cr:{name}"
        for name in (
            *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet"),
            *("format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField"),
            "transform",
        )
    },
}
_FORMATS = {
    ".csv": "text/csv",
    ".parquet": "application/x-parquet",
    ".md": "text/markdown",
    ".toml": "application/toml",
}
_FORMATS |= {".ipynb": "application/x-ipynb+json", ".safetensors": "application/octet-stream"}


def _format(path: str) -> str:
    suffix = PurePosixPath(path).suffix
    return _FORMATS.get(suffix) or mimetypes.guess_type(path)[0] or "text/plain"


def croissant(project: Project, name: str) -> dict[str, Any]:
    """The Croissant description of one of the `SETS`: every table with its columns; paths count from the root.

    Tables of the same columns that differ in their folders are one set of records. Title and description are the first
    of the set's README.
    """
    said, known = record.facts(project), licences(project)
    own = {path: licence for path, licence in known.items() if path.startswith(f"data/{name}/")}
    title, about, *_ = (project.root / "data" / name / "README.md").read_text(encoding="utf-8").split("\n\n")
    alike: dict[Any, list[str]] = defaultdict(list)
    for path in sorted(path for path in own if path.endswith((".csv", ".parquet"))):
        parts = path.split("/")
        alike[parts[2], len(parts), parts[-2] == "parts" or parts[-1], _columns(project.root / path)].append(path)
    files: list[dict[str, Any]] = []
    tables: list[dict[str, Any]] = []
    for (*_, columns), paths in alike.items():
        several = len(paths) > 1
        places = zip(*(path.split("/") for path in paths), strict=True)
        parts = [place[0] if len(set(place)) == 1 else "*" for place in places]
        here, label = "/".join(parts), "-".join(part.partition(".")[0] for part in parts[2:] if part != "*")
        about_file = {"@id": here, "name": here, "encodingFormat": _format(paths[0])}
        if several:
            files.append({"@type": "cr:FileSet", **about_file, "includes": here})
        else:
            size = f"{(project.root / here).stat().st_size} B"
            content = {"contentUrl": here, "contentSize": size, "sha256": sha256(project.root / here)}
            files.append({"@type": "cr:FileObject", **about_file, **content})
        source = {"fileSet" if several else "fileObject": {"@id": here}}
        fields = [("file", "sc:Text", {"fileProperty": "fullpath"})] * several
        fields += [(column, kind, {"column": column}) for column, kind in columns]
        shown = [
            {"@type": "cr:Field", "@id": f"{label}/{column}", "name": f"{label}/{column}", "dataType": kind}
            | {"source": source | {"extract": extract}}
            for column, kind, extract in fields
        ]
        tables.append({"@type": "cr:RecordSet", "@id": label, "name": label, "field": shown})
    where = said.book or said.repository or f"https://arxiv.org/abs/{said.examines}"
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"rbp-{name}",
        "description": f"{title.lstrip('# ')}. {about}",
        "version": said.version,
        "datePublished": said.released.isoformat(),
        "license": sorted({each.address or FACTS_MEAN for each in own.values()}),
        "creator": [{"@type": "sc:Person" if said.authors else "sc:Organization", "name": each} for each in said.names],
        "keywords": said.keywords,
        "url": where,
        "citeAs": record.bibtex(project),
        "distribution": files,
        "recordSet": tables,
    }


def _columns(path: Path) -> tuple[tuple[str, str], ...]:
    """The columns of a table, and their types in Croissant's words."""
    if path.suffix == ".csv":
        table = arrow.csv.read_csv(path)
        schema, holes = table.schema, {name for name in table.column_names if table[name].null_count}
    else:
        schema, holes = arrow.parquet.read_schema(path), set()

    def kind(field: arrow.Field) -> str:
        if arrow.types.is_integer(field.type):
            return "sc:Float" if field.name in holes else "sc:Integer"
        if arrow.types.is_floating(field.type):
            return "sc:Float"
        return "sc:Boolean" if arrow.types.is_boolean(field.type) else "sc:Text"

    return tuple((field.name, kind(field)) for field in schema)


# ── RO-Crate: what made every figure

_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
_FORMAL = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
_WORKFLOW = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
_TYPES = {"bool": "Boolean", "int": "Integer", "float": "Float"}


def _ref(name: str) -> dict[str, str]:
    return {"@id": name}


def _refs(names: Iterable[str]) -> list[dict[str, str]]:
    return [_ref(name) for name in names]


def outputs(project: Project, chapter: str) -> list[Path]:
    """What the built book has of a chapter: its figures and tables, its results, and the executed notebook."""
    recorded = project.chapters / chapter / "results.json"
    shown = project.html / "_sources" / "notebooks" / f"{chapter}.ipynb"
    return [recorded, shown, *files_below(project.html / "notebooks" / chapter)]


class _Crate:
    """The entities of an RO-Crate whose root is the project's."""

    def __init__(self, project: Project) -> None:
        self.project, self.said, self.known = project, record.facts(project), licences(project)
        self.entities: dict[str, dict[str, Any]] = {}
        self.files: list[str] = []

    def add(self, name: str, kind: str | list[str], /, **about: Any) -> str:
        """Add an entity; fields that say nothing are left out. Returns its name."""
        filled = {key: value for key, value in about.items() if key == "value" or value not in ("", [], None)}
        self.entities[name] = {"@id": name, "@type": kind} | filled
        return name

    def file(self, path: str | Path, kinds: tuple[str, ...] = (), /, **about: Any) -> str:
        """Add a file by its path from the root, with its checksum and, of data, its licence. Returns its name."""
        if not (self.project.root / path).is_relative_to(self.project.root):
            raise DataError("the book reads a file that is not the project's", str(path), "Copy it into the project.")
        relative = (self.project.root / path).relative_to(self.project.root).as_posix()
        if (name := quote(relative)) in self.entities:
            return name
        file = self.project.root / relative
        stated = self.known.get(relative)
        if stated and stated.address:
            about["license"] = _ref(self.licence(stated.name))
        elif stated:
            about["license"] = _ref(self.add("#facts", "CreativeWork", name=FACTS, description=FACTS_MEAN))
        if stated and stated.source:
            about["isBasedOn"] = _ref(self.add(stated.source, "WebSite", name=stated.source.partition("//")[2]))
        about |= {"encodingFormat": _format(relative), "contentSize": str(file.stat().st_size), "sha256": sha256(file)}
        self.files.append(name)
        return self.add(name, ["File", *kinds] if kinds else "File", **({"name": relative} | about))

    def licence(self, name: str) -> str:
        return self.add(Licence(name, "").address, "CreativeWork", name=name)

    def made(self) -> dict[str, Any]:
        """The whole, as JSON-LD."""
        said = self.said
        agents = [
            self.add(
                f"https://orcid.org/{each.orcid}" if each.orcid else f"#author-{number}",
                "Person",
                name=each.name,
                givenName=each.given,
                familyName=each.family,
                affiliation=each.affiliation,
            )
            for number, each in enumerate(said.authors, 1)
        ] or [self.add("#authors", "Organization", name=record.NAMELESS)]
        for path in self.known:
            self.file(path)
        runs, formal = self.chapters(agents[0])
        language = self.add(
            "https://w3id.org/workflowhub/workflow-ro-crate#snakemake",
            "ComputerLanguage",
            name="Snakemake",
            url=_ref("https://snakemake.readthedocs.io"),
            identifier=_ref("https://snakemake.readthedocs.io"),
        )
        workflow = self.file(
            "Snakefile",
            ("SoftwareSourceCode", "ComputationalWorkflow"),
            name=f"{said.title} The book as a workflow",
            version=said.version,
            url=said.repository,
            programmingLanguage=_ref(language),
            conformsTo=_ref(self.add(_WORKFLOW, "CreativeWork", name="ComputationalWorkflow", version="1.0-RELEASE")),
            input=_refs(formal),
            license=_ref(self.licence(said.licence)),
        )
        pins = [self.file(path.name) for path in sorted(self.project.root.glob("requirements*.lock"))]
        self.entities[workflow]["softwareRequirements"] = _refs(pins)
        pages = "_build/html/"
        self.add(pages, "Dataset", name="The built book", description="Open index.html in any browser.")
        merged = self.file(self.project.results, name="All recorded values of the book")
        report = [self.file(path, name="The report for referees") for path in _report(self.project)]
        read = {each["@id"] for run in runs for each in self.entities[run].get("object", [])}
        whole = self.add(
            "#run",
            "CreateAction",
            name="The book was built",
            description="rbp book: every chapter executed, the pages made of them.",
            instrument=_ref(workflow),
            agent=_ref(agents[0]),
            actionStatus=_ref("http://schema.org/CompletedActionStatus"),
            object=_refs(sorted(name for name in read if not name.startswith("_build/"))),
            result=_refs([pages, merged, *report]),
        )
        for name in ("LICENSE", "CITATION.cff", "record.toml", "data/licences.csv"):
            self.file(name)
        self.file("README.md", about=_ref("./"))
        conforms = [
            self.add(address, "CreativeWork", name=name, version=address.rpartition("/")[2])
            for address, name in _PROFILES.items()
        ]
        self.add(
            "./",
            "Dataset",
            name=said.full_title,
            description=said.abstract.strip(),
            datePublished=said.released.isoformat(),
            version=said.version,
            license=_ref(self.licence(said.licence)),
            author=_refs(agents) if len(agents) > 1 else _ref(agents[0]),
            keywords=", ".join(said.keywords),
            url=said.book or said.repository,
            citation=_ref(
                self.add(f"https://arxiv.org/abs/{said.examines}", "ScholarlyArticle", name=f"arXiv:{said.examines}")
            ),
            conformsTo=_refs(conforms),
            hasPart=_refs([*self.files, pages]),
            mainEntity=_ref(workflow),
            mentions=_refs([whole, *runs]),
        )
        spoken = ["https://w3id.org/ro/crate/1.1", "https://w3id.org/workflowhub/workflow-ro-crate/1.0"]
        self.add("ro-crate-metadata.json", "CreativeWork", about=_ref("./"), conformsTo=_refs(spoken))
        graph = sorted(
            self.entities.values(),
            key=lambda each: (each["@id"] != "ro-crate-metadata.json", each["@id"] != "./", each["@id"]),
        )
        terms = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
        return {"@context": ["https://w3id.org/ro/crate/1.1/context", terms], "@graph": graph}

    def chapters(self, agent: str) -> tuple[list[str], list[str]]:
        """Add what executed each chapter, from its notebook, parameters and inputs; these runs, and the parameters."""
        runs, formal = [], []
        for chapter in all_chapters(self.project):
            done = results.read_chapter(self.project.chapters / chapter.name / "results.json")
            reads = set(done.reads)
            for step in done.steps:  # its table is made on the way: what it was made of is what counts
                made_of = parse_json((self.project.steps / f"{step}.json").read_bytes())["inputs"]
                reads.update(path for path in made_of if path.startswith("data/"))
            needs = chapter_inputs(self.project, chapter.name)  # pins, and others' results
            reads.update(path for path in needs if path.endswith((".lock", "/results.json")) and path[:5] != "data/")
            inputs = [self.file(path) for path in sorted(reads)]
            given = chapter.effective(overrides(self.project, chapter))
            for parameter in chapter.parameters:
                label, value = f"{chapter.name}.{parameter.name}", given[parameter.name]
                name = self.add(
                    f"#value-{label}",
                    "PropertyValue",
                    name=label,
                    value=canonical_json(value) if isinstance(value, list) else value,
                    exampleOfWork=_ref(f"#parameter-{label}"),
                )
                inputs.append(name)
                formal.append(
                    self.add(
                        f"#parameter-{label}",
                        "FormalParameter",
                        name=label,
                        description=parameter.help,
                        additionalType=_TYPES.get(parameter.type, "Text"),
                        workExample=_ref(name),
                        conformsTo=_ref(
                            self.add(_FORMAL, "CreativeWork", name="FormalParameter", version="1.0-RELEASE")
                        ),
                    )
                )
            notebook = self.file(
                chapter.path,
                ("SoftwareSourceCode",),
                name=chapter.title,
                version=self.said.version,
                url=self.said.repository,
            )
            runs.append(
                self.add(
                    f"#run-{chapter.name}",
                    "CreateAction",
                    name=f"{chapter.name} was executed",
                    description=f"papermill executed the notebook of {chapter.title!r}.",
                    instrument=_ref(notebook),
                    agent=_ref(agent),
                    actionStatus=_ref("http://schema.org/CompletedActionStatus"),
                    object=_refs(inputs),
                    result=_refs(self.file(path) for path in outputs(self.project, chapter.name)),
                )
            )
        return runs, formal


def crate(project: Project) -> dict[str, Any]:
    """The RO-Crate of the built book: of every figure notebook, parameters, inputs with checksums, and outputs."""
    return _Crate(project).made()


# ── What is written, and the release


def _is_built(project: Project) -> bool:
    """Whether the book was built here: a release that was unzipped has its pages too, but not what made them."""
    return (project.html / "index.html").exists() and (project.build / "site.json").exists()


def _report(project: Project) -> list[Path]:
    """The report, if it was set from these very chapters."""
    return [site.pdf_file(project, "report")] if site.pdf_is_current(project, "report") else []


def write(project: Project) -> list[str]:
    """Write all that follows from the record into the project's root; returns the files' names.

    The RO-Crate tells of the book that was built here, and is left out where none was.
    """
    files = record.written(project)
    files |= {f"croissant-{name}.json": canonical_json(croissant(project, name), indent=1) + "\n" for name in SETS}
    for name, text in files.items():
        write_file(project.root / name, text)
    if not _is_built(project):
        return list(files)
    write_json(project.root / "ro-crate-metadata.json", crate(project))  # last, as it has the others' checksums
    return [*files, "ro-crate-metadata.json"]


def sources(project: Project) -> list[str]:
    """The files of the checkout, by their paths from the root: git's, or those that an unzipped release lists."""
    listed = project.root / SUMS
    if listed.exists():
        names = [line.partition("  ")[2] for line in listed.read_text(encoding="utf-8").splitlines()]
    elif (told := site.git(project, "ls-files", "-z")) is not None:
        names = told.split("\0")
    else:
        remedy = "Make it in a clone of the repository, or in an unzipped release."
        raise RbpError("nothing tells which files belong to the release", str(project.root), remedy)
    return [name for name in names if (project.root / name).is_file() and not name.startswith("_build/")]


def release(project: Project) -> list[Path]:
    """Write the release into ``_build/release``: two archives, and their checksums; returns these files.

    Both unzip into the same folder, which mirrors the checkout, built book included: the first has all but weights and
    the ranks of every token, which the second has. The same files give the same bytes. Raises RbpError without a built
    book, for data of no stated licence, and if an archive is above the `LIMIT`.
    """
    if not _is_built(project):
        raise RbpError("there is no built book to release", str(project.html), "Build it: make book.")
    known, said = licences(project), record.facts(project)
    written = write(project)
    beside = [project.results, *project.chapters.glob("*/results.json"), *_report(project)]
    built = [path for path in (*project.html.rglob("*"), *beside) if path.is_file()]
    names = sorted(
        {*sources(project), *written, *(path.relative_to(project.root).as_posix() for path in built)} - {SUMS}
    )
    if bare := next((name for name in names if name.startswith("data/") and name not in known), None):
        raise RbpError(f"no licence is stated of {bare}", "data/licences.csv", "Add a line, or take the file away.")
    sums = "".join(f"{sha256(project.root / name)}  {name}\n" for name in names)
    folder = f"rbp-{said.version}"
    heavy = [name for name in names if name.startswith(HEAVY)]
    parts = {f"{folder}.zip": sorted({*names, SUMS} - {*heavy}), f"{folder}-models.zip": heavy}
    with folder_beside(project.build / "release") as aside:
        for archive, inside in parts.items():
            with zipfile.ZipFile(aside / archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as stream:
                for name in inside:
                    entry = zipfile.ZipInfo(f"{folder}/{name}", (*said.released.timetuple()[:3], 0, 0, 0))
                    path = project.root / name
                    program = name != SUMS and os.access(path, os.X_OK)
                    entry.external_attr = (0o100755 if program else 0o100644) << 16
                    entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED  # Unix, wherever it is made
                    stream.writestr(entry, sums if name == SUMS else path.read_bytes())
            if (size := (aside / archive).stat().st_size) > LIMIT:
                what = f"the archive has {size / 1e6:.0f} MB, and may have {LIMIT / 1e6:.0f}"
                raise RbpError(what, archive, "Take out of the data what no chapter needs.")
        write_file(aside / SUMS, "".join(f"{sha256(aside / name)}  {name}\n" for name in parts))
        swap_in(aside, project.build / "release")
    return [project.build / "release" / name for name in (*parts, SUMS)]
