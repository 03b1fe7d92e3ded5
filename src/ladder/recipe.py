"""Read the recipes of the ladders: ladders.toml (families, sizes, training), ladder.toml (text, what is ranked).

Together they give a `Course` for each run, which is all that training needs to know.
"""

from collections.abc import Callable
from dataclasses import asdict, field, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from ladder import LADDER
from rbp.configuration import read_configuration
from rbp.errors import DataError, ParameterError
from rbp.io import canonical_json

CONFIGURATION = LADDER / "ladder.toml"
LADDERS = LADDER / "ladders.toml"

STRICT = ConfigDict(extra="forbid")
Count = Annotated[int, Field(ge=1, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Name = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]  # of files and folders


@dataclass(frozen=True, config=STRICT)
class Text:
    """The text that is trained on. tokens: read by every rung, once; passage: words in a row that may not be shared."""

    tokens: Count
    context: Count
    vocabulary: Annotated[int, Field(ge=1, le=2**16, strict=True)]  # tokens are kept in 16 bits
    characters: Count
    passage: Count
    seed: Seed


@dataclass(frozen=True, config=STRICT)
class TextSource:
    """One part of the training text: a corpus file, or the sources of installed packages.

    origin, licence: where the text is from, and on what terms; held_out: how many documents are not trained on.
    """

    name: Name
    file: str | None = None
    packages: tuple[str, ...] = ()
    held_out: Annotated[int, Field(ge=0, strict=True)] = 0
    origin: str = ""
    licence: str = ""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.file is None) == (not self.packages):
            raise ValueError(f"source {self.name} needs a file, or packages")
        return self


@dataclass(frozen=True, config=STRICT)
class Domain:
    """Text for evaluation: a corpus file, or the documents held out of a training source.

    fields: what makes a document, joined by a line break; documents: the first so many are ranked.
    """

    name: Name
    documents: Count
    file: str | None = None
    source: str | None = None
    fields: Annotated[tuple[str, ...], Field(min_length=1)] = ("text",)
    origin: str = ""
    licence: str = ""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.file is None) == (self.source is None):
            raise ValueError(f"domain {self.name} needs a file, or a source that holds documents out")
        return self


class Course(NamedTuple):
    """All that determines the weights of a run, but the rows and the device.

    model: arguments of `architectures.make_model`; steps: of AdamW, each reads `batch` rows; rate: the learning rate
    of a step, from 0 on; betas, decay, clip: see `Schedule`; settings: what distinguishes it from other courses.
    """

    model: dict[str, Any]
    steps: int
    batch: int
    rate: Callable[[int], float]
    betas: tuple[float, float]
    decay: float
    clip: float
    settings: dict[str, Any]

    def digest(self, device: str, rows: bytes) -> str:
        """Return all that determines the weights; rows: the SHA-256 of the training tokens."""
        return sha256(canonical_json({**self.settings, "device": device}).encode() + rows).hexdigest()

    def digests(self, rows: bytes) -> set[str]:
        """Return the digests on each kind of device."""
        return {self.digest(device, rows) for device in ("cpu", "cuda")}


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """All that determines the text: what is trained on, and what is ranked."""

    text: Text
    sources: Annotated[tuple[TextSource, ...], Field(min_length=1)]
    domains: Annotated[tuple[Domain, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _together(self) -> Self:
        for rows in (self.sources, self.domains):
            names = [row.name for row in rows]
            if len(set(names)) < len(names):
                raise ValueError("a name is there twice: give each its own")
        holding = sorted(source.name for source in self.sources if source.held_out)
        if holding != sorted(domain.source for domain in self.domains if domain.source is not None):
            raise ValueError("each source that holds documents out needs one domain, and the reverse")
        return self

    def text_digest(self) -> str:
        """Return a SHA-256 of all that determines tokenizer, training tokens and what is ranked, but the texts."""
        parts = {name: asdict(self)[name] for name in ("text", "sources", "domains")}
        return sha256(canonical_json(parts).encode()).hexdigest()


@dataclass(frozen=True, config=STRICT)
class Schedule:
    """AdamW with a linear warm-up, a constant rate, and a linear cool-down to 0 at each budget.

    budgets: tokens that the finished models have read; warmup: tokens; cooldown: share of a budget; a family's rate
    holds at `width`, and goes as width^−fall; decay: of matrices, not of biases and gains.
    """

    budgets: Annotated[tuple[Count, ...], Field(min_length=1)]
    batch: Count
    warmup: Count
    cooldown: Annotated[float, Field(gt=0, lt=1)]
    width: Count
    fall: Share
    betas: tuple[Momentum, Momentum]
    decay: Share
    clip: Positive


@dataclass(frozen=True, config=STRICT)
class Family:
    """A ladder of one architecture: one number of layers, one size of heads; only width grows.

    head: dimensions of a head of attention, 0 for none; rotary: the share of them that is turned by position; rate: the
    highest learning rate, at the schedule's width; rungs: names of widths.
    """

    name: Name
    architecture: Literal["neox", "lstm"]
    layers: Count
    rate: Positive
    rungs: Annotated[tuple[Name, ...], Field(min_length=1)]
    head: Annotated[int, Field(ge=0, strict=True)] = 0
    rotary: Share = 1.0

    def heads(self, width: int) -> int:
        """Count the heads of a layer. Raises ValueError where the width is no multiple of a head's."""
        if self.head and width % self.head:
            raise ValueError(
                f"width {width} does not give a whole number of heads of {self.head} in family {self.name}"
            )
        return width // self.head if self.head else 0


@dataclass(frozen=True, config=STRICT)
class Repeat:
    """A repeated run: the seeds of its first weights and of its order of the text."""

    weights: Seed
    order: Seed


class Change(NamedTuple):
    """The differences between a trial and the grid; None: as in the grid.

    rate: the highest learning rate; batch: rows that a step reads; distinct: tokens of the text, read over and over;
    more: tokens that follow the text's.
    """

    rate: float | None = None
    batch: int | None = None
    distinct: int | None = None
    more: int | None = None

    def __str__(self) -> str:
        """Return its part of a run's name: -rate0.003, -batch4, -of2m; nothing for a run of the grid, or a longer."""
        rate = "" if self.rate is None else f"-rate{self.rate:.3g}"
        batch = "" if self.batch is None else f"-batch{self.batch}"
        return rate + batch + ("" if self.distinct is None else f"-of{self.distinct / 1e6:g}m")


@dataclass(frozen=True, config=STRICT)
class Trial:
    """Runs that show how much depends on how the grid is trained: each rung, seed and budget with each change.

    rates: the highest learning rates, by rung, or factors of the rate that the rung has in the grid; batches: rows that
    a step reads; distinct: tokens of the text, read over and over; more: so many tokens of the same sources follow
    the text's. What is left out is as in the grid.
    """

    name: Name
    families: Annotated[tuple[Name, ...], Field(min_length=1)]
    budgets: Annotated[tuple[Count, ...], Field(min_length=1)]
    rungs: tuple[Name, ...] = ()
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    rates: dict[Name, Annotated[tuple[Positive, ...], Field(min_length=1)]] = field(default_factory=dict)
    factors: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    batches: tuple[Count, ...] = ()
    distinct: Count | None = None
    more: Count | None = None

    @model_validator(mode="after")
    def _one_kind_of_rates(self) -> Self:
        if bool(self.rungs) == bool(self.rates):
            raise ValueError(f"trial {self.name} needs rungs, or rates of rungs")
        return self


@dataclass(frozen=True, config=STRICT)
class Ladders:
    """Several families, trained alike on the text of another recipe.

    widths: of the rungs; repeats: seed → what differs from seed 0, for the `repeated` smallest rungs of a family at
    the largest budget.
    """

    text: str
    training: Schedule
    widths: dict[Name, Count]
    families: Annotated[tuple[Family, ...], Field(min_length=1)]
    repeats: dict[Annotated[int, Field(ge=1)], Repeat]
    repeated: Annotated[int, Field(ge=0, strict=True)]
    unseen: Count
    trials: tuple[Trial, ...] = ()

    @model_validator(mode="after")
    def _together(self) -> Self:
        budgets = self.training.budgets
        if list(budgets) != sorted(set(budgets)):
            raise ValueError("the budgets must grow")
        for family in self.families:
            if unknown := [name for name in family.rungs if name not in self.widths]:
                raise ValueError(f"rung {unknown[0]} of family {family.name} has no width")
            for name in family.rungs:
                family.heads(self.widths[name])
        if len({trial.name for trial in self.trials}) < len(self.trials):
            raise ValueError("two trials have the same name")
        for trial in self.trials:
            self._check(trial)
        return self

    def _check(self, trial: Trial) -> None:
        """Raises ValueError for a family, rung or seed that is not there, and for budgets that do not grow."""
        rungs = {family.name: family.rungs for family in self.families}
        if unknown := [name for name in trial.families if name not in rungs]:
            raise ValueError(f"trial {trial.name}: there is no family {unknown[0]}")
        for family, rung in product(trial.families, [*trial.rungs, *trial.rates]):
            if rung not in rungs[family]:
                raise ValueError(f"trial {trial.name}: there is no rung {rung} of family {family}")
        if unknown := [str(seed) for seed in trial.seeds if seed and seed not in self.repeats]:
            raise ValueError(f"trial {trial.name}: there is no seed {unknown[0]}")
        if list(trial.budgets) != sorted(set(trial.budgets)):
            raise ValueError(f"trial {trial.name}: the budgets must grow")

    def family(self, name: str) -> Family:
        """Find the family `name`. Raises ParameterError, with all names, if there is none."""
        for family in self.families:
            if family.name == name:
                return family
        available = ", ".join(family.name for family in self.families)
        raise ParameterError(f"there is no family {name!r}", "--family", f"There is: {available}.")

    def seeds(self, family: Family, rung: str) -> list[int]:
        """Return the seeds of a rung: 0, and for the smallest rungs the repeats' seeds."""
        smallest = sorted(family.rungs, key=lambda name: self.widths[name])[: self.repeated]
        return [0, *(sorted(self.repeats) if rung in smallest else [])]

    def budgets(self, seed: int) -> tuple[int, ...]:
        """Return the budgets of a seed: all of them for seed 0, else the largest."""
        return self.training.budgets if seed == 0 else self.training.budgets[-1:]

    def up_to(self, tokens: int) -> "Ladders":
        """Return the same with the budgets that so much text allows; with all of it, if that is less than any."""
        fitting = tuple(budget for budget in self.training.budgets if budget <= tokens)
        return self.with_training(budgets=fitting or (tokens,))

    def changes(self, trial: Trial, family: Family, rung: str) -> list[Change]:
        """Return what a trial changes of a rung, in turn; what is the grid's own is no change."""
        grid_rate = self.highest(family, rung)
        rates = trial.rates.get(rung) or [factor * grid_rate for factor in trial.factors]
        return [
            Change(
                None if rate == grid_rate else rate,
                None if batch == self.training.batch else batch,
                trial.distinct,
                trial.more,
            )
            for rate, batch in product(rates, trial.batches or [self.training.batch])
        ]

    def with_training(self, **changes: Any) -> "Ladders":
        """Give the same with some fields of `training` changed."""
        return replace(self, training=replace(self.training, **changes))

    def highest(self, family: Family, rung: str) -> float:
        """Return the highest learning rate of a rung."""
        rate: float = family.rate * (self.training.width / self.widths[rung]) ** self.training.fall
        return rate

    def steps(self, base: Recipe, tokens: int) -> int:
        """Count the steps that read so many tokens, or just fewer."""
        return tokens // (self.training.batch * base.text.context)

    def branch(self, base: Recipe, tokens: int) -> int:
        """Return the step at which the cool-down to a budget leaves the trunk, which all budgets share."""
        steps = self.steps(base, tokens)
        return steps - max(1, round(self.training.cooldown * steps))

    def rate(self, base: Recipe, highest: float, step: int, tokens: int | None) -> float:
        """Return the learning rate of a step on the way to a budget; on the trunk (None) it does not fall."""
        risen = min(1.0, (step + 1) / max(1, self.steps(base, self.training.warmup)))
        if tokens is None or step < (first := self.branch(base, tokens)):
            return highest * risen
        end = self.steps(base, tokens)
        return highest * risen * (end - step) / (end - first)

    def course(
        self, base: Recipe, family: Family, rung: str, seed: int, tokens: int | None, rate: float | None = None
    ) -> Course:
        """Return the course of a finished model of a budget, or of the trunk (None) that all budgets branch off.

        rate: the highest, instead of the family's.
        """
        width, chosen = self.widths[rung], self.training
        highest = self.highest(family, rung) if rate is None else rate
        repeat = self.repeats[seed] if seed else Repeat(0, 0)
        model = {
            "architecture": family.architecture,
            "layers": family.layers,
            "width": width,
            "heads": family.heads(width),
            "rotary": family.rotary,
            "vocabulary": base.text.vocabulary,
            "context": base.text.context,
            "seed": repeat.weights,
        }
        training = {name: getattr(chosen, name) for name in ("batch", "warmup", "betas", "decay", "clip")}
        ending = {} if tokens is None else {"tokens": tokens, "cooldown": chosen.cooldown}
        return Course(
            model,
            self.branch(base, chosen.budgets[-1]) if tokens is None else self.steps(base, tokens),
            chosen.batch,
            lambda step: self.rate(base, highest, step, tokens),
            chosen.betas,
            chosen.decay,
            chosen.clip,
            {"model": model, "training": training, "rate": highest, **ending},
        )


def read_recipe(path: Path = CONFIGURATION) -> Recipe:
    """Read the recipe in a TOML or JSON file. Raises DataError if it is malformed."""
    return read_configuration(path, Recipe)


def read_ladders(path: Path = LADDERS) -> tuple[Ladders, Recipe]:
    """Read the families in a TOML file, and the recipe of their text beside it. Raises what `read_recipe` does."""
    ladders = read_configuration(path, Ladders)
    base = read_recipe(path.parent / ladders.text)
    if ladders.training.budgets[-1] > base.text.tokens:
        fault = f"the largest budget is more than the {base.text.tokens:,} tokens of {ladders.text}"
        raise DataError(fault, str(path), "Correct it.")
    return ladders, base
