"""What archives take: licences of the data, descriptions of tables and figures, and releases of known bytes."""

import hashlib
import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from mini import write_book

from rbp.book import deposit, record, site
from rbp.core.errors import DataError, RbpError
from rbp.core.paths import ROOT, Project

LINES = "files,licence,source\nlicences.csv,MIT,\na.csv,MIT,\n*/README.md,MIT,\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A book of three chapters that looks built, with three small data sets."""
    project = Project(tmp_path / "book")
    write_book(project)
    for name in ("README.md", "LICENSE", "Snakefile"):
        shutil.copy(ROOT / name, project.root)
    data = project.root / "data"
    for name in deposit.SETS:
        (data / name).mkdir()
        (data / name / "README.md").write_text(f"# Of {name}\n\nWhat it is.\n\nMore.\n")
    (data / "outside" / "one.csv").write_text("name,count,share,holes\na,1,0.5,1\nb,2,1.5,\n")
    for folder in ("x", "y"):
        (data / "ladder" / "families" / folder).mkdir(parents=True)
        pd.DataFrame({"rank": [1, 2]}).to_parquet(data / "ladder" / "families" / folder / "ranks.parquet")
    (data / "licences.csv").write_text(LINES + "outside/one.csv,facts,https://a.example\nladder/*/*/*,CC-BY-4.0,\n")
    (project.html / "_sources" / "notebooks").mkdir(parents=True)
    (project.html / "index.html").write_text("<p>")
    for name in ("01_a", "02_b", "03_c"):
        (project.html / "notebooks" / name).mkdir(parents=True)
        (project.html / "notebooks" / name / "one.svg").write_text(f"<svg>{name}</svg>")
        (project.html / "_sources" / "notebooks" / f"{name}.ipynb").write_text("{}")
        (project.chapters / name).mkdir(parents=True)
        read = {"reads": ["data/a.csv"], "steps": ["counted"]} if name == "01_a" else {}
        (project.chapters / name / "results.json").write_text(json.dumps({"chapter": name, "values": {}} | read))
    project.steps.mkdir()
    inputs = {"data/outside/one.csv": "…", "src/rbp/code.py": "…"}
    (project.steps / "counted.json").write_text(json.dumps({"inputs": inputs}))
    for path in (project.results, project.build / "site.json"):
        path.write_text("{}")
    (project.book / "parameters.toml").write_text("[01_a]\nk = 40\n")
    return project


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ── Licences


def test_every_data_file_has_one_licence() -> None:
    known = deposit.licences(Project())
    assert {name for name in deposit.sources(Project()) if name.startswith("data/")} <= known.keys()
    assert {licence.name for licence in known.values()} <= {
        *("facts", "CC-BY-4.0", "MIT", "Apache-2.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0")
    }


def test_ranks_of_a_text_have_its_licence() -> None:
    """The tokens are in them, so that the text can be rebuilt."""
    known = deposit.licences(Project())
    texts = {each["name"]: each for each in json.loads((ROOT / "data/ladder/text.json").read_text())["evaluation"]}
    stores = [path for path in known if "/families-ranks/" in path]
    assert len(stores) > 100
    for path in stores:
        (text,) = [text for name, text in texts.items() if f"-{name}-" in path]
        assert text["licence"].replace(" ", "-").startswith(known[path].name), path
        assert known[path].source == f"https://github.com/{text['origin'].partition(' @')[0]}", path


def test_what_others_measured_has_the_licence_that_its_readme_names() -> None:
    known = deposit.licences(Project())
    for line in (ROOT / "data" / "outside" / "README.md").read_text().splitlines():
        if line.startswith("| `"):
            file, _, source, _, stated = (cell.strip() for cell in line.strip("|").split("|"))
            licence = known[f"data/outside/{file.strip('`')}"]
            assert licence.name == ("facts" if stated.startswith("no licence file") else stated), file
            assert licence.source == f"https://github.com/{source.split('`')[1]}", file


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (LINES, "no licence is stated of data/ladder/families/x/ranks.parquet"),
        (f"{LINES}outside/*,MIT,\n", "two lines name data/outside/README.md"),
        (f"{LINES}gone/*,MIT,\n", r"no file is called gone/\*"),
    ],
)
def test_data_of_no_or_two_licences_are_not_passed_on(project: Project, lines: str, said: str) -> None:
    (project.root / "data" / "licences.csv").write_text(lines)
    with pytest.raises(DataError, match=said):
        deposit.release(project)
    assert not (project.build / "release").exists()


# ── Croissant


@pytest.mark.parametrize("name", deposit.SETS)
def test_croissant_names_every_table_and_its_columns(name: str) -> None:
    described = deposit.croissant(Project(), name)
    files = {each["@id"]: each for each in described["distribution"]}
    assert len(files) == len(described["distribution"]) == len(described["recordSet"])
    covered = set()
    for table in described["recordSet"]:
        (source,) = {str(field["source"].get("fileObject") or field["source"]["fileSet"]) for field in table["field"]}
        pattern = json.loads(source.replace("'", '"'))["@id"]
        found = sorted(ROOT.glob(pattern))
        covered |= set(found)
        columns = [field["source"]["extract"].get("column") for field in table["field"]]
        for path in (found[0], found[-1]):
            read = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
            assert [column for column in columns if column] == list(read(path).columns), path
        if files[pattern]["@type"] == "cr:FileObject":
            assert files[pattern]["sha256"] == sha256(found[0].read_bytes())
    assert covered == {path for path in (ROOT / "data" / name).rglob("*") if path.suffix in (".csv", ".parquet")}


def test_croissant_tells_types_and_puts_like_tables_together(project: Project) -> None:
    (table,) = deposit.croissant(project, "outside")["recordSet"]
    kinds = {field["name"]: field["dataType"] for field in table["field"]}
    assert kinds == {"one/name": "sc:Text", "one/count": "sc:Integer", "one/share": "sc:Float", "one/holes": "sc:Float"}
    described = deposit.croissant(project, "ladder")
    assert [each["includes"] for each in described["distribution"]] == ["data/ladder/families/*/ranks.parquet"]
    assert described["description"] == "Of ladder. What it is."
    assert described["license"] == [f"https://spdx.org/licenses/{name}.html" for name in ("CC-BY-4.0", "MIT")]


# ── RO-Crate


def crated(project: Project) -> list[dict[str, Any]]:
    assert deposit.write(project)[-1] == "ro-crate-metadata.json"
    return json.loads((project.root / "ro-crate-metadata.json").read_text())["@graph"]


def test_the_crate_tells_what_made_every_figure(project: Project) -> None:
    entities = {each["@id"]: each for each in crated(project)}
    run = entities["#run-01_a"]
    assert run["instrument"] == {"@id": "notebooks/01_a.ipynb"}
    inputs = {each["@id"] for each in run["object"]}
    expected = {"data/a.csv", "data/outside/one.csv", "requirements.lock", "#value-01_a.k"}
    assert inputs == expected, "the step's data too"
    assert entities["#value-01_a.k"]["value"] == 40, "what the book's own run was given"
    assert entities["#parameter-01_a.k"]["additionalType"] == "Integer"
    assert entities["data/a.csv"]["sha256"] == sha256(b"x\n1\n")
    written = (project.root / "CITATION.cff").read_bytes()
    assert entities["CITATION.cff"]["sha256"] == sha256(written), "of what was written at the same time"
    assert entities["data/outside/one.csv"]["license"] == {"@id": "#facts"}
    figure = "_build/html/notebooks/01_a/one.svg"
    assert {"@id": figure} in run["result"]
    assert entities[figure]["sha256"] == sha256(b"<svg>01_a</svg>")
    others = {each["@id"] for each in entities["#run-03_c"]["object"]}
    assert others == {"requirements.lock", *(f"_build/chapters/{name}/results.json" for name in ("01_a", "02_b"))}


def test_a_file_from_elsewhere_is_not_described(project: Project, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("x\n")
    recorded = {"chapter": "02_b", "values": {}, "reads": [str(own)]}
    (project.chapters / "02_b" / "results.json").write_text(json.dumps(recorded))
    with pytest.raises(DataError, match="a file that is not the project's"):
        deposit.write(project)


def test_the_crate_hangs_together(project: Project) -> None:
    (project.root / "record.toml").open("a").write('[[authors]]\ngiven = "Ada"\nfamily = "Lovelace"\n')
    graph = crated(project)
    names = [each["@id"] for each in graph]
    assert len(names) == len(set(names))
    referred = set()

    def refer(value: object) -> None:
        if isinstance(value, dict):
            referred.update([value["@id"]] if value.keys() == {"@id"} else [])
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            refer(inner)

    refer(graph)
    outside = {"http://schema.org/CompletedActionStatus", "https://snakemake.readthedocs.io"}
    outside |= {"https://w3id.org/ro/crate/1.1"}
    assert referred - set(names) == outside
    files = {each["@id"] for each in graph if "File" in each["@type"]}
    parts = next(each for each in graph if each["@id"] == "./")["hasPart"]
    assert files == {each["@id"] for each in parts} - {"_build/html/"}
    assert all((project.root / name).is_file() for name in files)
    assert next(each for each in graph if each["@type"] == "Person")["name"] == "Ada Lovelace"


# ── The release


def checkout(project: Project) -> None:
    (project.root / ".gitignore").write_text("_build/\n/croissant-*.json\n/ro-crate-metadata.json\n")
    (project.root / "stray.txt").write_text("not of the project")
    for command in (["init", "-q"], ["add", "--all", "--", ":!stray.txt"]):
        subprocess.run(["git", *command], cwd=project.root, check=True)


def unzipped(archives: list[Path], folder: Path) -> Project:
    for path in archives[:2]:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    (root,) = folder.iterdir()
    return Project(root)


def test_a_release_is_of_known_bytes_and_makes_itself_again_without_git(project: Project, tmp_path: Path) -> None:
    checkout(project)
    archives = deposit.release(project)
    first = [path.read_bytes() for path in archives]
    for path in project.root.rglob("*.csv"):
        path.touch()
    assert [path.read_bytes() for path in deposit.release(project)] == first
    for line in archives[2].read_text().splitlines():
        sums, name = line.split("  ")
        assert sums == sha256((archives[2].parent / name).read_bytes())

    again = unzipped(archives, tmp_path / "again")
    described = {"ro-crate-metadata.json", *(f"croissant-{name}.json" for name in deposit.SETS)}
    assert described <= {path.name for path in again.root.iterdir()}
    listed = {}
    for line in (again.root / "SHA256SUMS").read_text().splitlines():
        sums, name = line.split("  ")
        listed[name] = sums
    there = {path.relative_to(again.root).as_posix(): path for path in again.root.rglob("*") if path.is_file()}
    assert {name: sha256(path.read_bytes()) for name, path in there.items() if name != "SHA256SUMS"} == listed
    assert "stray.txt" not in listed
    assert not any("/steps/" in name for name in listed)

    with pytest.raises(RbpError, match="no built book"):
        deposit.release(again)
    for name in ("steps", "site.json"):  # as a build leaves them
        path = project.build / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, again.build / name)
    assert [path.read_bytes() for path in deposit.release(again)] == first


def test_weights_and_ranks_are_in_the_second_archive(project: Project) -> None:
    checkout(project)
    names = [set(zipfile.ZipFile(path).namelist()) for path in deposit.release(project)[:2]]
    assert {name.partition("/")[2] for name in names[1]} == {
        f"data/ladder/families/{folder}/ranks.parquet" for folder in ("x", "y")
    }
    assert not names[0] & names[1]


def test_a_report_of_these_chapters_is_in_the_release_and_another_is_not(project: Project) -> None:
    for chapter in ("01_a", "02_b", "03_c"):
        (project.chapters / chapter / f"{chapter}.ipynb").write_text("{}")
    checkout(project)
    report = site.pdf_file(project, "report")
    report.parent.mkdir()
    report.write_bytes(b"%PDF")
    for stamp, there in (("of others", False), (site.fingerprint(project), True)):
        site.pdf_stamp(project, "report").write_text(stamp)
        names = zipfile.ZipFile(deposit.release(project)[0]).namelist()
        assert any(name.endswith("/_build/pdf/report.pdf") for name in names) == there
    run = next(each for each in crated(project) if each["@id"] == "#run")
    assert {"@id": "_build/pdf/report.pdf"} in run["result"]


def test_a_release_that_is_too_large_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout(project)
    monkeypatch.setattr(deposit, "LIMIT", 1000)
    with pytest.raises(RbpError, match="the archive has"):
        deposit.release(project)
    assert not (project.build / "release").exists()


def test_a_release_needs_a_built_book_and_a_list_of_files(project: Project) -> None:
    with pytest.raises(RbpError, match="nothing tells which files"):
        deposit.release(project)
    (project.html / "index.html").unlink()
    with pytest.raises(RbpError, match="no built book"):
        deposit.release(project)
    assert "ro-crate-metadata.json" not in deposit.write(project)


# ── What is committed


def test_what_is_committed_is_what_the_record_says() -> None:
    for name, text in record.written(Project()).items():
        assert (ROOT / name).read_text() == text, f"{name}: rbp record"


def test_authors_and_addresses_reach_citation_licence_and_deposit(project: Project) -> None:
    path = project.root / "record.toml"
    text = path.read_text().replace('repository = ""', 'repository = "https://github.com/a/b"')
    path.write_text(text.replace('book = ""', 'book = "https://a.example/b/"') + "[[authors]]\n" + AUTHOR)
    written = record.written(project)
    assert "Copyright (c) 2026 Ada Lovelace\n" in written["LICENSE"]
    assert written["LICENSE"].count("\n") == (ROOT / "LICENSE").read_text().count("\n")
    cff, zenodo = yaml.safe_load(written["CITATION.cff"]), json.loads(written[".zenodo.json"])
    orcid = "0000-0002-1825-0097"
    assert cff["authors"] == [
        {"family-names": "Lovelace", "given-names": "Ada", "orcid": f"https://orcid.org/{orcid}"},
    ]
    assert (cff["repository-code"], cff["url"]) == ("https://github.com/a/b", "https://a.example/b/")
    assert zenodo["creators"] == [{"name": "Lovelace, Ada", "orcid": orcid}]
    assert {each["identifier"] for each in zenodo["related_identifiers"]} == {
        *("arXiv:2510.20387", "https://github.com/a/b", "https://a.example/b/")
    }


AUTHOR = 'given = "Ada"\nfamily = "Lovelace"\norcid = "0000-0002-1825-0097"\n'
