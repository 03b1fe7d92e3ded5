"""The page "How this book was made": the one page that may differ from one build to the next."""

import importlib.metadata
import platform
import subprocess

from rbp.book import times
from rbp.files import sha256
from rbp.paths import Project

PACKAGES = (
    *("jupyter-book", "sphinx", "myst-nb", "papermill", "ipykernel", "snakemake", "numpy", "pandas", "scipy"),
    *("statsmodels", "matplotlib", "seaborn", "plotly"),
)


def commit(project: Project) -> str:
    """The checkout's commit, and whether files differ from it; "not a checkout" outside git."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(project.root), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    if head is None:
        return "not a checkout"
    return f"`{head}`" + (", with changes that are not committed" if git("status", "--porcelain") else "")


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"| {a} | {b} |" for a, b in [head, ("---", "---"), *rows])


def made_page(project: Project) -> str:
    """The page as MyST Markdown: versions, commit, seconds for each step and chapter, checksums of the data."""
    versions = [(name, importlib.metadata.version(name)) for name in PACKAGES]
    took = times(project)
    seconds = [(name, f"{value:.1f}") for name, value in took.items()]
    seconds.append(("all", f"{sum(took.values()):.1f}"))
    data = project.root / "data"
    files = sorted(path for path in data.rglob("*") if path.is_file() and not path.name.startswith("."))
    sums = [(f"`{path.relative_to(project.root).as_posix()}`", f"`{sha256(path)}`") for path in files]
    return f"""---
nosearch: true
---
# How this book was made

`rbp book` executed every chapter with papermill and built these pages with Jupyter Book. Every number in the
prose was recorded by a chapter and put in from there. Building the book again from the same sources gives the
same pages, byte for byte, but for this one.

- Commit: {commit(project)}
- Python {platform.python_version()} on {platform.system()} {platform.machine()}

## Packages

{_table(("Package", "Version"), versions)}

All pins are in `requirements.lock`.

## Seconds for each step and chapter

{_table(("Step or chapter", "Seconds"), seconds)}

Each was measured when the step was last made or the chapter last executed; two may have shared the machine.

## Data

{_table(("File", "SHA-256"), sums)}
"""
