"""The ladder's configuration, data/ladder/ladder.toml: its text, its training and its rungs."""

import math
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from rbp.errors import DataError, ParameterError
from rbp.paths import DATA

FOLDER = DATA / "ladder"
CONFIGURATION = FOLDER / "ladder.toml"

STRICT = ConfigDict(extra="forbid")
Count = Annotated[int, Field(ge=1, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, strict=True)]


@dataclass(frozen=True, config=STRICT)
class Text:
    """The text that is trained on. tokens: read by every rung, once; passage: words in a row that may not be shared."""

    tokens: Count
    context: Count
    vocabulary: Count
    characters: Count
    passage: Count
    seed: Seed


@dataclass(frozen=True, config=STRICT)
class Training:
    """AdamW with a linear warm-up and a cosine. rate: the highest learning rate at `width`."""

    batch: Count
    rate: Positive
    width: Count
    warmup: Share
    final: Share
    betas: tuple[Share, Share]
    decay: Share
    clip: Positive


@dataclass(frozen=True, config=STRICT)
class Source:
    """One part of the training text: a corpus file, or the sources of installed packages."""

    name: str
    file: str | None = None
    packages: tuple[str, ...] = ()
    held_out: Seed = 0


@dataclass(frozen=True, config=STRICT)
class Rung:
    """One model of the ladder: GPT-NeoX, with a feed-forward width of four times `width`."""

    name: str
    layers: Count
    width: Count
    heads: Count
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _rotary(self) -> Self:
        if self.width % self.heads or self.width // self.heads % 8:
            raise ValueError(f"the width of rung {self.name} must be {self.heads} times a multiple of 8")
        return self


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """All that determines the ladder."""

    text: Text
    training: Training
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    rungs: Annotated[tuple[Rung, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names(self) -> Self:
        for rows in (self.sources, self.rungs):
            names = [row.name for row in rows]
            if len(set(names)) < len(names):
                raise ValueError("a name is there twice: give each its own")
        return self

    @property
    def steps(self) -> int:
        """Steps of AdamW: each reads `batch` rows of `context` tokens."""
        return self.text.tokens // (self.training.batch * self.text.context)

    def rate(self, rung: Rung, step: int, steps: int) -> float:
        """The learning rate of a step: warm-up, then a cosine; the highest falls as 1/√width."""
        chosen = self.training
        highest = chosen.rate * math.sqrt(chosen.width / rung.width)
        warmup = max(1, round(chosen.warmup * steps))
        if step < warmup:
            return highest * (step + 1) / warmup
        turn = 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
        return highest * (chosen.final + (1 - chosen.final) * turn)

    def rung(self, name: str) -> Rung:
        """The rung `name`. Raises ParameterError if there is none."""
        for rung in self.rungs:
            if rung.name == name:
                return rung
        there = ", ".join(rung.name for rung in self.rungs)
        raise ParameterError(f"there is no rung {name!r}", "--rungs", f"There is: {there}.")

    def as_dict(self, rung: Rung) -> dict[str, Any]:
        """All that determines the weights of `rung` but the seed and the tokens."""
        about = {name: value for name, value in asdict(rung).items() if name not in ("name", "seeds")}
        return {"rung": about, "training": asdict(self.training), "context": self.text.context}


def read(path: Path = CONFIGURATION) -> Recipe:
    """The recipe in a TOML file. Raises DataError if it is malformed, lacks an entry or has one too many."""
    try:
        return TypeAdapter(Recipe).validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError("there is no such file", str(path), "Give the path of a ladder's configuration.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataError(first["msg"], f"{path}, {place}" if place else str(path), "Correct it.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"the file is no TOML: {error}", str(path), "Correct it.") from None
