"""The command `rbp`. What is heavy is imported by the command that needs it: `rbp --help` answers at once."""

import atexit
import gc
import io
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rbp import registry
from rbp.cli import compare, fit, harness, law, ranks, study
from rbp.errors import ChapterFailed, RbpError
from rbp.io import refusal, write_remedy
from rbp.names import nearest
from rbp.place import Place


class _Commands(TyperGroup):
    """The commands of `rbp`; for a wrong name it suggests one that is not internal."""

    def resolve_command(self, context: Any, words: list[str]) -> Any:
        if self.get_command(context, words[0]) is None and not words[0].startswith("-"):
            shown = [name for name, command in self.commands.items() if not command.hidden]
            context.fail(f"No such command {words[0]!r}. {nearest(words[0], shown)}")
        return super().resolve_command(context, words)


class _Grouped(TyperCommand):
    """A command whose help has its options in groups (`rich_help_panel`), each under its heading."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or "Run", []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Rank the tokens of texts by language models, and fit laws to them.",
)

app.command(cls=_Grouped)(ranks.extract)
app.command()(compare.compare)
app.command()(law.law)
app.command()(fit.fit)
app.command("lm-eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(harness.evaluate)
app.add_typer(ranks.ranks, name="ranks")
app.add_typer(study.study, name="study")
for entry in registry.entries("commands").values():  # of other packages
    app.add_typer(entry.load())


@app.callback()
def _options(
    context: typer.Context,
    root: Annotated[Path | None, typer.Option(hidden=True, help="Another project's root folder.")] = None,
    home: Annotated[Path | None, typer.Option(hidden=True, help="The folder below which results go.")] = None,
) -> None:
    context.obj = Place(root and root.resolve(), home)


def main() -> None:
    """Run `rbp`: what a user can mend is a message and exit 2, a failed chapter exit 1, Ctrl-C exit 130."""
    # A job that is stopped (SIGTERM) cleans up as after Ctrl-C: no half-written folder stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for stream in (sys.stdout, sys.stderr):  # a character that a terminal's encoding lacks is spelled out
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # What is imported stays, two thirds of a million objects with a model's class: looking through it for garbage
    # takes a seventh of a start, and a second in the end.
    gc.set_threshold(1_000_000)
    atexit.register(_keep_garbage)
    try:
        app()
    except RbpError as error:
        _stop(f"error: {error}", 2)
    except OSError as error:  # such as a full disk, a path below a file, or a folder that is not ours to write
        if why := refusal(error):
            remedy = f"{write_remedy(error, 'choose another folder')} What was there before is still whole."
            _stop(f"error: the system does not let us write: {why}\n{remedy}", 2)
        if error.filename is None:
            raise
        _stop(f"error: {error.strerror} ({error.filename})\nCheck the path, and that you may read and write there.", 2)
    except ChapterFailed as failure:
        notebook = failure.partial_notebook
        _stop(f"error: {failure}" + (f"\nThe partial notebook: {notebook}" if notebook else ""), 1)


def _keep_garbage() -> None:
    """Leave no garbage to look for in the end, unless triton would report it: from 3.9 on it is built by nanobind."""
    library: Any = sys.modules.get("triton._C.libtriton")
    if library is None or type(library.ir.builder).__module__ != "nanobind":
        gc.freeze()


def _stop(message: str, code: int) -> None:
    typer.echo(message, err=True)
    sys.exit(code)
