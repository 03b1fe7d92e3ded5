"""The corpora from their public homes: miniature archives, as the server gives them, in place of the network."""

import gzip
import io
import json
import tarfile

import pytest

from companion.project import LADDER
from ladder import homes
from ladder.recipe import read_recipe

JUDGED = (LADDER / "judgments.txt").read_text().split()[:2]
CASE = """<?xml version="1.0"?>
<case>
<name>A v B [2006] FCA 1 (5 January 2006)</name>
<AustLII>http://x</AustLII>
<catchphrases>
<catchphrase "id=c0">appeal</catchphrase>
</catchphrases>
<sentences>
<sentence id="s0">Background

 1 The applicants &amp; others.</sentence>
<sentence id="s1">They appeal.</sentence>
</sentences>
</case>"""
NOVEL = """<TEI><teiHeader><p>left out</p></teiHeader><text><body>
<head>CHAPTER I.</head><p>It was<note>ed.</note> a
 <hi>dark</hi> night &amp; cold.</p><lg><l>O moon,</l></lg></body></text></TEI>"""
WIKI = """
 = Du Fu =

 Du Fu ( 712 – 770 ) didn 't travel 1 @,@ 000 miles , " far " away .
 = = Life = =
 x
 = B =
"""
REPOSITORIES = {
    "southern-cross-ai/AustLII-Legal-Case-Report/tar.gz/2ca2d1b6": {
        **{f"AustLII/corpus/fulltext/{name}.xml": CASE.encode() for name in reversed(JUDGED)},
        "AustLII/corpus/fulltext/99_1.xml": CASE.encode(),  # none of those taken
        "AustLII/corpus/citations/06_1.xml": b"<case>",
    },
    "COST-ELTeC/ELTeC-eng/tar.gz/3db3b673": {"level1/ENG1_A.xml": NOVEL.encode(), "level0/ENG1_A.xml": b"x"},
    "python/peps/tar.gz/ba4deeb7": {"peps/pep-0001.rst": b"PEP: 1\nTitle: Purpose\n\nWhat?\n====\n"},
    "ethereum/EIPs/tar.gz/f767a1e8": {"EIPS/eip-1.md": b"---\neip: 1\ntitle: Aims\n---\n\n## Why\n"},
    "swiftlang/swift-evolution/tar.gz/0105e139": {"proposals/0001-a.md": b"# Allow\n", "visions/b.md": b"# See\n"},
    "Tylogi/TyloQuant/tar.gz/7989d038": {"data/wikitext-2-raw/wiki.test.raw": WIKI.replace("\n", " \n").encode()},
    "openai/human-eval/tar.gz/6d43fb98": {
        "data/HumanEval.jsonl.gz": gzip.compress(
            b'{"task_id": "HumanEval/0", "prompt": "p", "canonical_solution": "s"}\n'
        )
    },
    "ysymyth/ReAct/tar.gz/6bdb3a1f": {
        "data/hotpot_dev_v1_simplified.json": b'[{"question": "q", "answer": "a", "type": "bridge"}]'
    },
}
JUDGMENT = "A v B [2006] FCA 1 (5 January 2006)\n\nBackground\n\n1 The applicants & others. They appeal."
ARTICLE = '= Du Fu =\nDu Fu (712–770) didn\'t travel 1,000 miles, "far" away.\n== Life ==\nx'
#: the documents of each corpus: name and texts, in the order of their keys
WANTED = {
    "fca_judgments.jsonl.gz": [[f"fca/{name}", JUDGMENT] for name in JUDGED],
    "novels_eltec_eng.jsonl.gz": [["eltec-eng/ENG1_A", "CHAPTER I.\n\nIt was a dark night & cold.\n\nO moon,"]],
    "tech_proposals.jsonl.gz": [
        ["peps/pep-0001.rst", "Purpose\n\nWhat?\n===="],
        ["eips/eip-1.md", "Aims\n\n## Why"],
        ["swift-evolution/proposals/0001-a.md", "# Allow"],
        ["swift-evolution/visions/b.md", "# See"],
    ],
    "wikitext2_raw_test.jsonl.gz": [["wikitext2-raw/test/0", ARTICLE], ["wikitext2-raw/test/1", "= B ="]],
    "humaneval.jsonl.gz": [["s", "HumanEval/0", "p"]],
    "hotpotqa_dev.jsonl.gz": [["a", "hotpot-dev/0", "q"]],
}


@pytest.fixture
def server(tmp_path, monkeypatch):
    folder = tmp_path / "server"
    for name, files in REPOSITORIES.items():
        (folder / name).parent.mkdir(parents=True)
        with tarfile.open(folder / name, "w:gz") as archive:
            for path, data in {**files, "../../outside.xml": b"x"}.items():
                member = tarfile.TarInfo(f"repository-commit/{path}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    monkeypatch.setattr(homes, "SERVER", folder.as_uri())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_the_recipe_s_corpora_are_downloaded_once_and_parsed(server, tmp_path):
    folder = homes.fetch(read_recipe())
    assert folder == tmp_path / "cache" / "rbp" / "corpora"
    found = {
        path.name: [[*json.loads(line).values()] for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        for path in folder.iterdir()
    }
    assert found == WANTED
    assert {path.name for path in tmp_path.iterdir()} == {"server", "cache"}
    server.rename(tmp_path / "gone")
    assert homes.fetch(read_recipe()) == folder
