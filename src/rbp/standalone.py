"""One executed chapter as one HTML file that opens offline."""

from pathlib import Path

from rbp.chapters import Chapter
from rbp.paths import Project


def render(project: Project, chapter: Chapter, folder: Path) -> None:
    """TODO"""
