"""The book of a study: a front page that says what was measured, and the study's chapters. It reads offline."""

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from rbp import excerpt, onepage, results
from rbp.extraction.protocols import Protocol
from rbp.files import folder_beside, swap_in, write_file, write_json
from rbp.paths import Project
from rbp.study.file import Study
from rbp.study.jobs import BOOK, TABLE, chapter_job, chapters_of
from rbp.study.stores import finished_store

FRONT = """# {title}

A study by `rbp study run`. Models: {models}; corpora: {corpora}; tokens ranked in all: {tokens:,}. All numbers on this
page are taken from the manifests of the rank stores.

## What was measured

{model_table}

S is the number of parameters without those of the embedding; the vocabulary is the number of logits that a rank is
found among.

### Tokens ranked, for each model and corpus

{token_table}

### How

- {protocol}
- The models compute in {dtype}; this was done on: {device}.

## The measurements

The table of all measurements, −ln RBP<sub>k</sub> and cross-entropy of each model on each corpus:
<a href="{parquet}" download>Parquet</a>, <a href="{csv}" download>CSV</a>.

## The chapters

{chapters}

## Run it again

```bash
rbp study run {file}
```

This is <a href="study.toml" download>the study's file</a>; paths in it are relative to the folder that it lies in. What
is measured already is kept, and only what is missing is measured.
"""
LISTED = (
    "These are reruns of the companion's chapters, on this study's measurements; a note at the head of each says so."
)
NONE = "This study's file names none."


def make_book(study: Study, project: Project) -> None:
    """Build the book into its folder, which is replaced whole.

    Numbers that a chapter cites from another are those of the study's own run of it, or else of the project's built
    book. Raises DataError if a store is not finished or a chapter not executed, RbpError if a page cannot be built.
    """
    names = chapters_of(study)
    folders = {name: (study.out / chapter_job(name).output).parent for name in names}
    own = {name: results.read_chapter(folder / "results.json").values for name, folder in folders.items()}
    found = [finished_store(study, cell).manifest for cell in study.cells]
    table = study.out / TABLE.output
    files = {path.name: path for path in (table, table.with_suffix(".csv"))} | {"study.toml": study.path}
    pages = {"index.md": front_page(study, found)}
    for name, folder in folders.items():
        pages[f"notebooks/{name}.ipynb"] = excerpt.page_of(project, folder / f"{name}.ipynb", own)
        if (folder / name).is_dir():
            files[f"notebooks/{name}"] = folder / name
    made = study.out / BOOK.output
    with folder_beside(made.parent) as aside:
        html = excerpt.build(project, pages, aside, files, study.title)
        for page in (*html.glob("*.html"), *html.glob("notebooks/*.html")):
            soup = onepage.read(page)
            onepage.keep_links(soup, page.parent, html)
            write_file(page, str(soup))
        write_json(html / made.name, {"chapters": names, "stores": [one["digest"] for one in found]})
        swap_in(html, made.parent)


def front_page(study: Study, manifests: Sequence[dict[str, Any]]) -> str:
    """The first page as MyST Markdown; `manifests` are those of the finished stores, in the order of the cells."""
    each = len(study.corpora)
    models = [manifests[at : at + each] for at in range(0, len(manifests), each)]
    abouts, keys = [one["about"] for one in manifests], [one["key"] for one in manifests]
    listed = "\n".join(f"- [](notebooks/{name}.ipynb)" for name in chapters_of(study))
    table = study.out / TABLE.output
    return FRONT.format(
        title=plain(study.title),
        models=len(models),
        corpora=each,
        tokens=sum(one["tokens"] for one in manifests),
        model_table=_table(("Model", "Family", "S", "Vocabulary", "Revision"), map(_model_row, models)),
        token_table=_table(("Model", *(one["dataset"] for one in abouts[:each])), map(_token_row, models)),
        protocol=in_words(Protocol(**keys[0]["protocol"])),
        dtype=_each_once(key["dtype"] for key in keys),
        device=_each_once(f"{one['device']} ({key['device']})" for one, key in zip(abouts, keys, strict=True)),
        parquet=table.name,
        csv=table.with_suffix(".csv").name,
        chapters=f"{LISTED}\n\n{listed}" if listed else NONE,
        file=shlex.quote(study.path.name),
    )


def in_words(protocol: Protocol) -> str:
    """What a protocol takes of a corpus, and in what context it ranks it, for readers who never ran one."""
    if protocol.name == "authors":
        what = (
            f"The authors' protocol: of each corpus {protocol.documents:,} documents (all, if it has fewer), shuffled "
            f"with seed {protocol.seed} and cut to {protocol.length:,} tokens. Every token of a document but its first "
            "is ranked, with all before it as context."
        )
    else:
        documents = f"the first {protocol.documents:,} documents" if protocol.documents else "every document"
        what = (
            f"Of each corpus {documents}, whole, in windows of {protocol.length:,} tokens. Every token of a document "
            f"but its first is ranked once, with at least {protocol.context:,} tokens before it as context, or all "
            "that there are."
        )
    return what + (f" It ends after {protocol.tokens:,} tokens of a corpus." if protocol.tokens else "")


def plain(text: str) -> str:
    """Any text as Markdown that shows it as it stands, in one line."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))


def _model_row(stores: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    about = stores[0]["about"]
    size, vocabulary = f"{about['size']:,}", f"{about['vocabulary']:,}"
    return about["model"], about["family"], size, vocabulary, stores[0]["key"]["revision"] or "–"


def _token_row(stores: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return stores[0]["about"]["model"], *(f"{one['tokens']:,}" for one in stores)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; columns of numbers stand to the right."""
    cells = list(rows)
    rule = [
        "---:" if all(re.fullmatch(r"[\d,]+", one) for one in column) else "---" for column in zip(*cells, strict=True)
    ]
    lines = [list(map(plain, head)), rule, *([plain(cell) for cell in row] for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _each_once(values: Iterable[str]) -> str:
    return ", ".join(plain(value) for value in dict.fromkeys(values))
