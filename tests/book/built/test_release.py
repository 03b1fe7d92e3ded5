"""The release of the built book, as each format's own validator sees it, in an environment of its own."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from rbp.book import deposit, record
from rbp.core.paths import ROOT, Project

ADA = '[[authors]]\ngiven = "Ada"\nfamily = "Lovelace"\norcid = "0000-0002-1825-0097"\naffiliation = "Works"\n'

CRATE = """
import json, sys
from importlib.resources import files
import requests
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings
CONTEXT = "https://w3id.org/ro/crate/1.1/context"  # which a package holds: no network is needed
text = (files("rocrate") / "data" / "ro-crate.jsonld").read_bytes()
assert json.loads(text)["@id"] == CONTEXT
def request(self, method, url, **_):
    if url != CONTEXT:
        raise requests.ConnectionError(url)
    response = requests.Response()
    response.status_code, response._content, response.url = 200, text, url
    response.headers["Content-Type"] = "application/ld+json"
    return response
requests.Session.request = request
asked = {"profile_identifier": "workflow-run-crate-0.5", "requirement_severity": Severity.REQUIRED, "no_cache": True}
result = services.validate(ValidationSettings(rocrate_uri=sys.argv[1], **asked))
print(json.dumps([f"{issue.check.identifier}: {issue.message}" for issue in result.get_issues(Severity.REQUIRED)]))
"""

CROISSANT = """
import itertools, json, sys
import mlcroissant
told = {}
for name in sys.argv[1:]:
    dataset = mlcroissant.Dataset(jsonld=f"croissant-{name}.json")
    issues = dataset.metadata.ctx.issues
    assert not issues.errors and not issues.warnings, issues.report()
    for table in dataset.metadata.record_sets:
        rows = itertools.islice(dataset.records(table.uuid), 20)
        told[f"{name}/{table.uuid}"] = [
            {key.partition("/")[2]: each.decode() if isinstance(each, bytes) else each for key, each in row.items()}
            for row in rows
        ]
print(json.dumps(told, default=str))
"""

ZENODO = "import json, sys, zenodo_client; zenodo_client.Metadata(**json.load(open(sys.argv[1]))); print('[]')"


def alone(packages: str, program: str, *arguments: str | Path, cwd: Path) -> object:
    """What a program prints as JSON in a new environment with these packages."""
    given = [word for package in packages.split() for word in ("--with", package)]
    command = [sys.executable, "-m", "uv", "run", "--quiet", "--no-project", "--isolated", *given, "python"]
    ran = subprocess.run([*command, "-c", program, *map(str, arguments)], cwd=cwd, capture_output=True, text=True)
    if "error sending request" in ran.stderr or "Failed to fetch" in ran.stderr:
        pytest.skip("the package index cannot be reached")
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def unzipped(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real release, both archives unzipped into one folder."""
    folder = tmp_path_factory.mktemp("release")
    *archives, _ = deposit.release(Project())
    for path in archives:
        assert path.stat().st_size < 160e6
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    (root,) = folder.iterdir()
    return root


pytestmark = pytest.mark.slow


def test_it_holds_what_its_checksums_say(unzipped: Path) -> None:
    listed = [line.split("  ") for line in (unzipped / "SHA256SUMS").read_text().splitlines()]
    assert len(listed) > 900
    for sums, name in listed:
        assert hashlib.sha256((unzipped / name).read_bytes()).hexdigest() == sums, name


def test_every_figure_of_the_book_has_its_provenance(unzipped: Path) -> None:
    graph = {each["@id"]: each for each in json.loads((unzipped / "ro-crate-metadata.json").read_text())["@graph"]}
    made = {each["@id"] for run in graph.values() if run["@type"] == "CreateAction" for each in run["result"]}
    figures = {path.relative_to(unzipped).as_posix() for path in unzipped.glob("_build/html/notebooks/*/*.*")}
    assert len(figures) > 200
    assert figures <= made
    for name in figures:
        assert graph[name]["sha256"] == hashlib.sha256((unzipped / name).read_bytes()).hexdigest()


def test_the_crate_is_a_workflow_run_crate(unzipped: Path) -> None:
    validator = "roc-validator==0.13.0 rocrate==0.13.0"
    assert alone(validator, CRATE, unzipped, cwd=unzipped) == []
    crate = unzipped / "ro-crate-metadata.json"
    whole = crate.read_text()
    try:
        crate.write_text(whole.replace('"instrument"', '"description"').replace('"mainEntity"', '"about"'))
        found = alone(validator, CRATE, unzipped, cwd=unzipped)
    finally:
        crate.write_text(whole)
    assert any("instrument" in each for each in found), "the validator sees what is missing"


def test_mlcroissant_reads_the_tables(unzipped: Path) -> None:
    told = alone("mlcroissant==1.1.1 pyarrow==26.0.1", CROISSANT, *deposit.SETS, cwd=unzipped)
    assert {name.partition("/")[0] for name in told} == set(deposit.SETS)
    for name, path in (
        ("published/rbp", "data/published/rbp.csv"),
        ("outside/xlstm_runs", "data/outside/xlstm_runs.csv"),
        ("ladder/trials", "data/ladder/trials.csv"),
    ):
        read = pd.read_csv if path.endswith("csv") else pd.read_parquet
        expected = read(ROOT / path).head(20)
        pd.testing.assert_frame_equal(
            pd.DataFrame(told[name]).fillna(float("nan")), expected, check_dtype=False, rtol=1e-6
        )
    file = told["ladder/families-sums-counts"][0].pop("file")
    first = pd.read_parquet(ROOT / file).iloc[0].to_dict()
    assert told["ladder/families-sums-counts"][0] == first


@pytest.mark.parametrize("authors", ["", ADA])
def test_the_citation_and_the_deposit_are_valid(tmp_path: Path, authors: str) -> None:
    project = Project(tmp_path)
    text = (ROOT / "record.toml").read_text()
    (tmp_path / "record.toml").write_text(text + authors)
    for name in ("LICENSE", "book/references.bib"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name, content in record.written(project).items():
        (tmp_path / name).write_text(content)
    cff = [sys.executable, "-m", "uv", "tool", "run", "--quiet", "--from", "cffconvert==2.0.0", "cffconvert"]
    for options in (["--validate"], ["--format", "zenodo", "--outfile", "converted.json"]):
        ran = subprocess.run([*cff, *options], cwd=tmp_path, capture_output=True, text=True)
        if "error sending request" in ran.stderr:
            pytest.skip("the package index cannot be reached")
        assert ran.returncode == 0, ran.stderr
    ours, theirs = (json.loads((tmp_path / name).read_text()) for name in (".zenodo.json", "converted.json"))
    assert theirs.pop("license")["id"] == ours["license"]
    assert theirs.pop("description") in ours["description"]
    assert {name: ours[name] for name in theirs} == theirs, "as the citation file's own tool converts it"
    if authors:  # it wants persons
        assert alone("zenodo-client==0.4.2", ZENODO, ".zenodo.json", cwd=tmp_path) == []
