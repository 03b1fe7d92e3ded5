"""The commands `rbp ladder`: train a family of small models from nothing, and rank with it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbp.core.errors import ParameterError, RbpError
from rbp.core.names import split_names, split_numbers
from rbp.core.paths import Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rbp.core.processes import Task
    from rbp.ladder.grid import Grid
    from rbp.ladder.recipe import Recipe
    from rbp.ladder.workspace import Workspace


ladder = typer.Typer(
    no_args_is_help=True, help="Train the ladder, a family of small models, from nothing: train, rank, ship."
)

Texts = Annotated[
    Path | None,
    typer.Option(help="A folder of .txt files, or of the recipe's corpora; default: those, from their public homes."),
]
Tokens = Annotated[int | None, typer.Option(min=1, help="Train on so many tokens of the .txt files: a family too.")]
Config = Annotated[Path | None, typer.Option(help="The recipe.", show_default="data/ladder/ladder.toml")]
Out = Annotated[
    Path | None,
    typer.Option(help="The working folder.", show_default="runs/ladder; of .txt files in FOLDER runs/ladder-FOLDER"),
]
Families = Annotated[
    str | None,
    typer.Option(
        "--family",
        help="Families of data/ladder/ladders.toml (neox, lstm, mamba2), with commas; or ablation, or ngrams, by "
        "themselves; in runs/ladders.",
    ),
]
Rungs = Annotated[str | None, typer.Option(help="Some rungs, with commas; default: all.")]
Seeds = Annotated[str | None, typer.Option(help="Some seeds, with commas; default: all of each rung.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="How many at a time; default: one for each core.")]


@ladder.command()
def tokenizer(context: typer.Context, texts: Texts = None, config: Config = None, out: Out = None) -> None:
    """Train the tokenizer on the training text."""
    place, recipe, texts = _open(context, config, out, texts)
    from rbp.ladder.text import find_texts, write_tokenizer

    write_tokenizer(place, recipe, find_texts(recipe, texts))
    typer.echo(str(place / "tokenizer"))


@ladder.command()
def data(
    context: typer.Context, texts: Texts = None, tokens: Tokens = None, config: Config = None, out: Out = None
) -> None:
    """Gather the text, cut it into the rows that every rung reads, and say what it is."""
    place, recipe, texts = _open(context, config, out, texts, tokens)
    from rbp.ladder.text import find_texts, summary_lines, write_all

    for line in summary_lines(write_all(place, recipe, find_texts(recipe, texts))):
        typer.echo(line)


@ladder.command()
def train(
    context: typer.Context,
    rungs: Rungs = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda. On a GPU the rungs go one after the other.")] = "auto",
    steps: Annotated[int | None, typer.Option(min=1, help="So many steps instead of the recipe's: a trial.")] = None,
    every: Annotated[float, typer.Option(min=0, help="Save so often, in seconds.")] = 20.0,
    family: Families = None,
    texts: Texts = None,
    tokens: Tokens = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Train what is not trained yet. A run that was stopped goes on where it was, to the same weights."""
    if family is not None:
        if steps is not None:
            raise ParameterError("the budgets of a family are in its recipe", "--steps", "Leave it out.")
        from rbp.ladder import ablation

        if "ngrams" in (families := split_names(family)):
            remedy = "Count them: rbp ladder rank --family ngrams."
            raise ParameterError("n-grams are not trained, they are counted", "--family", remedy)
        grid, texts = _open_grid(context, config, out, texts, tokens)
        device = _device(device)
        if _alone(families, ablation.FAMILY):
            chosen = ablation.choose(grid, split_names(rungs), _seeds(seeds))
            grid.prepare(texts)
            todo, made = ablation.jobs(grid, chosen, device, every), [grid.place.model(*which) for which in chosen]
        else:
            lines = grid.choose(families, split_names(rungs), _seeds(seeds), also=ablation.FAMILY)
            grid.prepare(texts)
            todo = grid.jobs(lines, device, every)
            made = [grid.model(line, budget) for line in lines for budget in grid.ladders.budgets(line.seed)]
        _end(_work(todo, jobs, device))
        for model in made:
            typer.echo(str(model))
        return
    place, recipe, texts = _open(context, config, out, texts, tokens)
    from rbp.ladder import runs, training
    from rbp.ladder.shipping import assemble
    from rbp.ladder.text import prepare

    chosen = runs.choose_runs(recipe, split_names(rungs), _seeds(seeds))
    if steps is not None and steps > recipe.steps:
        raise ParameterError(f"{steps} steps are more than the text has: {recipe.steps}", "--steps", "Give fewer.")
    device = _device(device)
    prepare(place, recipe, texts)
    failed = _work(training.training_tasks(chosen, place, recipe, device, steps, every), jobs, device)
    if runs.finished_runs(place, recipe):
        assemble(place, recipe)
    _end(failed)
    for which in chosen:
        typer.echo(str(place.model(*which)))


@ladder.command()
def sweep(
    context: typer.Context,
    family: Annotated[str, typer.Option(help="Families of data/ladder/ladders.toml, with commas.")],
    jobs: Jobs = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    texts: Texts = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Try the recipe's learning rates for some families: a short training each, and its loss on unseen text."""
    grid, texts = _open_grid(context, config, out, texts)
    device = _device(device)
    todo = grid.sweeps(split_names(family), device)
    grid.prepare(texts)
    _end(_work(todo, jobs, device))
    for job in todo:
        typer.echo(str(grid.place / "training" / job.name / "rates.json"))


@ladder.command()
def rank(
    context: typer.Context,
    rungs: Rungs = None,
    seeds: Seeds = None,
    domains: Annotated[str | None, typer.Option(help="Some domains, with commas; default: all.")] = None,
    jobs: Jobs = None,
    family: Families = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="Only the entropies beside the stores in data/ladder, by its own weights.")
    ] = False,
    texts: Texts = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Rank every token of the evaluation text by every model that is trained: a rank store each.

    Of a family's models, each token's rank is kept for seed 0 at the largest budget, of the others sums. --family
    ngrams counts n-grams of 1 to 5 tokens (its --rungs) in the text of the largest budget, and ranks by them.
    """
    if shipped:
        if family is not None or seeds is not None or texts is not None:
            what = "weights are shipped of the first seeds of one family, and its texts are in the stores"
            raise ParameterError(what, "--shipped", "Leave out --family, --seeds and --texts.")
        from rbp.core.paths import LADDER
        from rbp.ladder.ranking import shipped_tasks
        from rbp.ladder.recipe import CONFIGURATION, read

        recipe, folder = read(config or CONFIGURATION), out or LADDER
        wanted = [recipe.domain(name).name for name in split_names(domains)] or [each.name for each in recipe.domains]
        _end(_work(shipped_tasks(folder, recipe, split_names(rungs), wanted), jobs))
        typer.echo(str(folder / "ranks"))
        return
    if family is not None:
        if domains is not None:
            raise ParameterError("a family is ranked on all domains", "--domains", "Leave it out.")
        from rbp.ladder import ablation, aggregates, floor

        grid, texts = _open_grid(context, config, out, texts)
        families = split_names(family)
        if _alone(families, ablation.FAMILY):
            chosen = ablation.choose(grid, split_names(rungs), _seeds(seeds))
            grid.prepare(texts)
            todo = ablation.ranking_jobs(grid, chosen)
        elif _alone(families, floor.FAMILY):
            if seeds is not None:
                raise ParameterError("n-grams are counted, and have no seeds", "--seeds", "Leave it out.")
            orders = floor.choose(split_names(rungs))
            grid.prepare(texts)
            todo = floor.jobs(grid, orders)
        else:
            also = f"{ablation.FAMILY}, {floor.FAMILY}"
            lines = grid.choose(families, split_names(rungs), _seeds(seeds), also=also)
            grid.prepare(texts)
            todo = aggregates.jobs(grid, lines)
        _end(_work(todo, jobs))
        typer.echo(str(grid.place / "aggregates"))
        return
    place, recipe, texts = _open(context, config, out, texts)
    from rbp.ladder import ranking, runs
    from rbp.ladder.shipping import assemble
    from rbp.ladder.text import prepare

    wanted = [recipe.domain(name).name for name in split_names(domains)] or [domain.name for domain in recipe.domains]
    trained = {which for which, _ in runs.finished_runs(place, recipe)}
    asked = runs.choose_runs(recipe, split_names(rungs), _seeds(seeds))
    chosen = [which for which in asked if which in trained]
    if not chosen:
        raise ParameterError("none of these runs is trained", str(place.folder), "Train first: rbp ladder train.")
    for which in asked:
        if which not in trained:
            typer.echo(f"{which.name}: not trained yet, so left out", err=True)
    prepare(place, recipe, texts)
    failed = _work(ranking.ranking_tasks(chosen, place, recipe, wanted), jobs)
    assemble(place, recipe)
    _end(failed)
    typer.echo(str(place / "ranks"))


@ladder.command()
def ship(
    context: typer.Context,
    to: Annotated[Path | None, typer.Option(help="Where to.", show_default="data/ladder")] = None,
    family: Families = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Copy models, ranks and what is known about them from the working folder into the project.

    Of a family sums of ranks of all models that are ranked; of seed 0 at the largest budget weights and ranks.
    """
    from rbp.core.paths import LADDER

    if family is not None:
        from rbp.ladder.grid_shipping import ship as copy_families

        grid, _ = _open_grid(context, config, out, None)
        for name, shipped in copy_families(grid, split_names(family), to or LADDER).items():
            for model in shipped.left_out:
                typer.echo(f"{model}: not ranked, so left out", err=True)
            typer.echo(f"{name}: {shipped.bytes / 1e6:.1f} MB", err=True)
        typer.echo(str(to or LADDER))
        return
    place, recipe, _ = _open(context, config, out)
    from rbp.ladder.shipping import ship as copy

    for name in copy(place, recipe, to or LADDER):
        typer.echo(f"{name}: its weights do not fit, and must be trained again: rbp ladder train", err=True)
    typer.echo(str(to or LADDER))


def _open(
    context: typer.Context, config: Path | None, out: Path | None, texts: Path | None = None, tokens: int | None = None
) -> "tuple[Workspace, Recipe, Path | None]":
    """The working folder, the recipe, and the folder of its corpora, None for their public homes."""
    from rbp.ladder.recipe import CONFIGURATION, read

    return _with_text(context, read(config or CONFIGURATION), "ladder", out, texts, tokens)


def _open_grid(
    context: typer.Context, config: Path | None, out: Path | None, texts: Path | None, tokens: int | None = None
) -> "tuple[Grid, Path | None]":
    from rbp.ladder.grid import Grid
    from rbp.ladder.recipe import LADDERS, read_ladders

    ladders, base = read_ladders(config or LADDERS)
    place, base, texts = _with_text(context, base, "ladders", out, texts, tokens)
    return Grid(ladders.up_to(base.text.tokens), base, place), texts


def _with_text(
    context: typer.Context, recipe: "Recipe", name: str, out: Path | None, texts: Path | None, tokens: int | None
) -> "tuple[Workspace, Recipe, Path | None]":
    """See `_open`. Plain text is made corpora in the working folder, which has its text from then on."""
    from rbp.ladder.text import OWN, import_plain, is_plain, on_own_text
    from rbp.ladder.workspace import Workspace

    project: Project = context.find_root().obj
    plain = texts is not None and is_plain(recipe, texts)
    if tokens is not None and not plain:
        raise ParameterError("the number of tokens is in the recipe", "--tokens", "Leave it out, or give .txt files.")
    if texts is not None and plain:
        place = Workspace(out or project.runs / f"ladder-{texts.resolve().name}")
        import_plain(place, recipe, texts, tokens)
    else:
        place = Workspace(out or project.runs / name)
    if plain or (texts is None and (place / OWN).is_file()):
        return place, on_own_text(place, recipe), (place / OWN).parent
    return place, recipe, texts


def _alone(families: "Sequence[str]", special: str) -> bool:
    """Whether the families are this one, which has rungs of its own. Raises ParameterError if it is one of several."""
    if special in families and len(families) > 1:
        what = f"{special} cannot stand beside other families: its rungs are its own"
        raise ParameterError(what, "--family", f"Give it by itself: --family {special}.")
    return list(families) == [special]


def _device(name: str) -> str:
    """The kind of device. Raises ParameterError for another name, and where there is none."""
    if name not in ("auto", "cpu", "cuda"):
        raise ParameterError(f"there is no device {name!r}", "--device", "Give auto, cpu or cuda.")
    if name == "cpu":
        return name
    from rbp.ranks.extraction import find_device

    return find_device(name).type


def _work(todo: "Sequence[Task]", at_once: int | None, device: str = "cpu") -> dict[str, RbpError | str]:
    from rbp.core.processes import board, cores, run_tasks

    with board() as show:
        return run_tasks(todo, 1 if device == "cuda" else at_once or cores(), show)


def _end(failed: dict[str, RbpError | str]) -> None:
    """Say what went wrong: exit 2 if it can all be mended by who runs it, 1 otherwise."""
    for name, error in failed.items():
        typer.echo(f"error: {name}: {error}", err=True)
    if failed:
        typer.echo("What the others made stays. Run the same command again to go on.", err=True)
        sys.exit(2 if all(isinstance(error, RbpError) for error in failed.values()) else 1)


def _seeds(text: str | None) -> list[int]:
    return split_numbers(text, "seeds", "--seeds", least=0)
