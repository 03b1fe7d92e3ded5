"""The corpora from their public homes: repositories at fixed commits, downloaded once and parsed to documents.

The family that is shipped was trained on plain text made from these repositories by others. What is made here
may differ from it in details (white space, notes, headings): the fingerprints in text.json show it. The
judgments taken are the same, listed in data/ladder/judgments.txt.
"""

import gzip
import html
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias
from urllib.error import URLError
from urllib.request import urlopen

from ladder import LADDER
from ladder.recipe import Recipe
from rbp.errors import DataError
from rbp.io import cache_folder, canonical_json, write_file

SERVER = "https://codeload.github.com"
_REMEDY = "Connect this machine, or give the folder of the corpora: --texts FOLDER."

Row: TypeAlias = dict[str, str]


def _case(path: PurePosixPath, data: bytes) -> Iterator[Row]:
    """Parse a judgment: its name, then its sentences; the files are no well-formed XML."""
    text = data.decode("utf-8", "replace")
    name = re.search(r"<name>(.*?)</name>", text, re.DOTALL)
    sentences = " ".join(re.findall(r"<sentence\b[^>]*>(.*?)</sentence>", text, re.DOTALL))
    body = re.sub(r"[^\S\n]*\n\s*\n\s*", "\n\n", html.unescape(sentences))
    yield {"id": f"fca/{path.stem}", "text": f"{html.unescape(name[1]).strip() if name else ''}\n\n{body.strip()}"}


def _novel(path: PurePosixPath, data: bytes) -> Iterator[Row]:
    """Parse a novel in TEI: headings, paragraphs and lines of verse, without notes."""
    text = re.sub(r"<note\b.*?</note>", "", data.decode().partition("<text")[2], flags=re.DOTALL)
    blocks = re.findall(r"<(head|p|l)\b[^>/]*>(.*?)</\1>", text, re.DOTALL)
    plain = (" ".join(html.unescape(re.sub(r"<[^>]*>", "", block)).split()) for _, block in blocks)
    yield {"id": f"eltec-eng/{path.stem}", "text": "\n\n".join(filter(None, plain))}


def _proposal(path: PurePosixPath, data: bytes) -> Iterator[Row]:
    """Parse a proposal: the title of its header, if it has one, and what follows the header."""
    text = data.decode().replace("\r\n", "\n")
    if path.suffix == ".rst":
        header, _, body = text.partition("\n\n")
    elif text.startswith("---\n"):
        header, _, body = text[4:].partition("\n---")
    else:
        header, body = "", text
    title = re.search(r"^title:\s*(.*)$", header, re.MULTILINE | re.IGNORECASE)
    start = {"peps": "peps", "EIPS": "eips"}.get(path.parts[0], f"swift-evolution/{path.parts[0]}")
    yield {"id": f"{start}/{path.name}", "text": (f"{title[1].strip()}\n\n" if title else "") + body.strip()}


def _articles(path: PurePosixPath, data: bytes) -> Iterator[Row]:
    """Parse the articles of WikiText-2: each begins with its title; the tokens are put together again by rule."""
    parts = re.split(r"(?m)^ (?== [^=\n]+ = $)", data.decode())[1:]
    for number, part in enumerate(parts):
        text = "\n".join(filter(None, (line.strip() for line in part.splitlines())))
        for pattern, new in (
            (r" @([-,.])@ ", r"\1"),
            (r"(?<==) (?==)", ""),  # headings: = = Life = =
            (r" ([,.;:!?)\]}%]|'(?:s|t|d|m|re|ve|ll)\b)", r"\1"),
            (r"(?<=s) ' ", "' "),
            (r"([(\[{$£]) ", r"\1"),
            (r" / ", "/"),
            (r"(?<=\d) – (?=\d)", "–"),
            (r'" ([^"\n]*) "', r'"\1"'),
        ):
            text = re.sub(pattern, new, text)
        yield {"id": f"wikitext2-raw/test/{number}", "text": text}


def _code(path: PurePosixPath, data: bytes) -> Iterator[Row]:
    for line in gzip.decompress(data).decode().splitlines():
        row = json.loads(line)
        yield {"id": row["task_id"], "prompt": row["prompt"], "canonical_solution": row["canonical_solution"]}


def _questions(path: PurePosixPath, data: bytes) -> Iterator[Row]:
    for number, row in enumerate(json.loads(data)):
        yield {"id": f"hotpot-dev/{number}", "question": row["question"], "answer": row["answer"]}


class Home(NamedTuple):
    """A repository at a commit, the files in it, and how each becomes documents."""

    repository: str
    commit: str
    files: tuple[str, ...]
    parse: Callable[[PurePosixPath, bytes], Iterator[Row]]


HOMES = {
    "fca_judgments.jsonl.gz": (
        Home("southern-cross-ai/AustLII-Legal-Case-Report", "2ca2d1b6", ("AustLII/corpus/fulltext/*.xml",), _case),
    ),
    "novels_eltec_eng.jsonl.gz": (Home("COST-ELTeC/ELTeC-eng", "3db3b673", ("level1/*.xml",), _novel),),
    "tech_proposals.jsonl.gz": (
        Home("python/peps", "ba4deeb7", ("peps/pep-*.rst",), _proposal),
        Home("ethereum/EIPs", "f767a1e8", ("EIPS/eip-*.md",), _proposal),
        Home("swiftlang/swift-evolution", "0105e139", ("proposals/*.md", "visions/*.md"), _proposal),
    ),
    "wikitext2_raw_test.jsonl.gz": (
        Home("Tylogi/TyloQuant", "7989d038", ("data/wikitext-2-raw/wiki.test.raw",), _articles),
    ),
    "humaneval.jsonl.gz": (Home("openai/human-eval", "6d43fb98", ("data/HumanEval.jsonl.gz",), _code),),
    "hotpotqa_dev.jsonl.gz": (Home("ysymyth/ReAct", "6bdb3a1f", ("data/hotpot_dev_v1_simplified.json",), _questions),),
}


def fetch(recipe: Recipe) -> Path:
    """Download the corpus files that the recipe names, where they are missing; gives their folder.

    Raises DataError for a file that has no public home, and where the network or the repository is out of reach.
    """
    cache = cache_folder() / "corpora"
    files = [source.file for source in recipe.sources] + [domain.file for domain in recipe.domains]
    for file in filter(None, files):
        if file not in HOMES:
            raise DataError("no public home of this corpus is known", file, "Give its folder: --texts FOLDER.")
        if not (cache / file).is_file():
            rows = [row for home in HOMES[file] for row in _rows(home)]
            if file == "fca_judgments.jsonl.gz":
                taken = (LADDER / "judgments.txt").read_text(encoding="utf-8").split()
                by_name = {row["id"]: row for row in rows}
                rows = [by_name[f"fca/{name}"] for name in taken if f"fca/{name}" in by_name]
            text = "".join(canonical_json(row) + "\n" for row in rows)
            write_file(cache / file, gzip.compress(text.encode(), mtime=0))
    return cache


def _rows(home: Home) -> list[Row]:
    """Return the documents of a repository, in the order of its files' names. Nothing is unpacked to the disk."""
    url, rows = f"{SERVER}/{home.repository}/tar.gz/{home.commit}", {}
    try:
        with urlopen(url, timeout=60) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:  # noqa: S310
            for member in archive:
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])  # below repository-commit/
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and any(fnmatchcase(str(path), pattern) for pattern in home.files):
                    rows[path] = list(home.parse(path, file.read()))
    except (URLError, OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"the corpus cannot be downloaded: {error}", url, _REMEDY) from None
    return [row for path in sorted(rows) for row in rows[path]]
