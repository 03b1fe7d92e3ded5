"""The ladder's configuration, data/ladder/ladder.toml: its text, its training, its rungs, and what is ranked."""

import math
import tomllib
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from rbp.errors import DataError, ParameterError
from rbp.files import canonical_json
from rbp.paths import DATA

FOLDER = DATA / "ladder"
CONFIGURATION = FOLDER / "ladder.toml"

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
class Training:
    """AdamW with a linear warm-up and a cosine. rate: the highest learning rate at `width`."""

    batch: Count
    rate: Positive
    width: Count
    warmup: Share
    final: Share
    betas: tuple[Momentum, Momentum]
    decay: Share
    clip: Positive


@dataclass(frozen=True, config=STRICT)
class Source:
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


@dataclass(frozen=True, config=STRICT)
class Rung:
    """One model of the ladder: GPT-NeoX, with a feed-forward width of four times `width`."""

    name: Name
    layers: Count
    width: Count
    heads: Count
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.width % self.heads or self.width // self.heads % 8:
            raise ValueError(f"the width of rung {self.name} must be {self.heads} times a multiple of 8")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a seed of rung {self.name} is there twice")
        return self


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """All that determines the ladder."""

    text: Text
    training: Training
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    domains: Annotated[tuple[Domain, ...], Field(min_length=1)]
    rungs: Annotated[tuple[Rung, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _together(self) -> Self:
        for rows in (self.sources, self.domains, self.rungs):
            names = [row.name for row in rows]
            if len(set(names)) < len(names):
                raise ValueError("a name is there twice: give each its own")
        holding = sorted(source.name for source in self.sources if source.held_out)
        if holding != sorted(domain.source for domain in self.domains if domain.source is not None):
            raise ValueError("each source that holds documents out needs one domain, and the reverse")
        if not self.steps:
            raise ValueError("the tokens are too few for one step, which reads batch times context")
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
        return _named(self.rungs, name, "rung")

    def domain(self, name: str) -> Domain:
        """The domain `name`. Raises ParameterError if there is none."""
        return _named(self.domains, name, "domain")

    def as_dict(self, rung: Rung) -> dict[str, Any]:
        """All that determines the weights of `rung` but the seed and the tokens."""
        about = {name: value for name, value in asdict(rung).items() if name not in ("name", "seeds")}
        return {"rung": about, "training": asdict(self.training), "context": self.text.context}

    def text_digest(self) -> str:
        """A SHA-256 of all that determines the tokenizer, the training tokens and what is ranked, but the texts."""
        about = {name: asdict(self)[name] for name in ("text", "sources", "domains")}
        return sha256(canonical_json(about).encode()).hexdigest()


Row = TypeVar("Row", Rung, Domain)


def _named(rows: tuple[Row, ...], name: str, kind: str) -> Row:
    for row in rows:
        if row.name == name:
            return row
    there = ", ".join(row.name for row in rows)
    raise ParameterError(f"there is no {kind} {name!r}", f"--{kind}s", f"There is: {there}.")


def read(path: Path = CONFIGURATION) -> Recipe:
    """The recipe in a TOML file. Raises DataError if it is malformed, lacks an entry or has one too many."""
    try:
        return TypeAdapter(Recipe).validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError("there is no such file", str(path), "Give the path of a ladder's configuration.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise DataError(what, f"{path}, {place}" if place else str(path), "Correct it.") from None
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", str(path), "Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"the file is no TOML: {error}", str(path), "Correct it.") from None
