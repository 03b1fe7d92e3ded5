"""Import ranks that other programs computed, of vLLM or in a table, as a rank store."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from rbp.core.errors import DataError, ParameterError
from rbp.core.files import home_expanded, parse_json, sha256
from rbp.core.paths import label
from rbp.ranks.models import Dtype
from rbp.ranks.store import SCHEMA, find_place

FORMS = ("vllm", "csv")
RULES = ("paper", "strict")  # of ranks that are whole numbers
SLACK = 1e-3  # by which R · p may pass 1: engines round what they print


@dataclass(frozen=True)
class Said:
    """What a file of ranks does not say of itself.

    model, dataset, family: their labels; size: S; vocabulary: how many logits there are; dtype: of the scores that
    were compared; tie_rule: how equal scores were counted (vLLM's V1 engine: paper).
    Raises ParameterError for what cannot be.
    """

    model: str
    dataset: str
    family: str
    size: int
    vocabulary: int
    dtype: str
    tie_rule: str

    def __post_init__(self) -> None:
        for name, there in (("tie_rule", RULES), ("dtype", get_args(Dtype))):
            if (given := getattr(self, name)) not in there:
                option = f"--{name.replace('_', '-')}"
                raise ParameterError(
                    f"unknown {name.replace('_', ' ')} {given!r}", option, f"One of: {', '.join(there)}."
                )
        for name, least in (("size", 1), ("vocabulary", 2)):
            if getattr(self, name) < least:
                raise ParameterError(f"a {name} of {getattr(self, name)}", f"--{name}", f"Give at least {least}.")


class Token(NamedTuple):
    """A ranked token: where it stands, which it is, its rank and its −ln p (nats)."""

    document: int
    position: int
    token: int
    rank: float
    nll: float


def import_ranks(path: str | Path, form: str, said: Said, out: Path) -> Path:
    """Keep the ranks in a file of another program as a rank store below the folder `out`; gives its place.

    form: "vllm", JSON lines with prompt_logprobs, or "csv", columns document, position, token, rank, and logprob or
    nll. The store is read under no other tie rule than it was counted by. Raises DataError for a file that is malformed
    or not whole, and for a rank and a probability that cannot both be.
    """
    if form not in FORMS:
        raise ParameterError(f"ranks of {form!r}", "--from", f"There is: {', '.join(FORMS)}.")
    source = home_expanded(str(path))
    tokens = list((_vllm if form == "vllm" else _csv)(source, said))
    if not tokens:
        raise DataError("no token is ranked in it", str(path), "Ask the engine for the prompt's log-probabilities.")
    columns = {name: np.array([getattr(each, name) for each in tokens]) for name in Token._fields}
    key = {
        "imported": sha256(source),
        "form": form,
        "protocol": {"name": "imported", "length": None},
        "dtype": said.dtype,
        "tie_rule": said.tie_rule,
        "device": form,
    }
    named = f"{Path(said.model).name}-{said.dataset}"
    store = find_place(out, named, key)
    with store.lock():
        store.clear()
        about = {name: value for name, value in asdict(said).items() if name not in ("dtype", "tie_rule")}
        store.begin(key, about, 1, len(tokens))
        for old in (store.folder / "parts").glob("*"):
            old.unlink()
        above = columns["rank"].astype(np.int64) - 1
        columns |= {"greater": above, "equal": np.ones_like(above)}
        store.write(0, {name: columns[name] for name in SCHEMA.names})
        store.finish({})
    return store.folder


def _checked(token: Token, said: Said, where: str) -> Token:
    if not (1 <= token.rank <= said.vocabulary and token.rank == int(token.rank)):
        what = f"{token.rank:g} is no rank among {said.vocabulary:,} tokens"
        raise DataError(what, where, "Ranks count from 1; is it the right --vocabulary?")
    if not 0 <= token.token < said.vocabulary:
        raise DataError(f"there is no token {token.token}", where, "Is it the right --vocabulary?")
    if not token.nll >= 0:
        raise DataError(f"{-token.nll:g} is no logarithm of a probability", where, "Log-probabilities are 0 at most.")
    if token.rank * math.exp(-token.nll) > 1 + SLACK:
        p = math.exp(-token.nll)
        what = f"a token of rank {token.rank:g} cannot have the probability {p:.3g}: those before it have as much each"
        raise DataError(what, where, "Ranks and log-probabilities are not of the same scores.")
    return token


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Of each line that is not empty, where it is and the value."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", str(path), "Check the path.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{label(path)}, line {number}"
            try:
                yield where, parse_json(line)
            except ValueError:
                remedy = "Is the file whole? Each line is an object."
                raise DataError("the line is no JSON", where, remedy) from None


def _vllm(path: Path, said: Said) -> Iterator[Token]:
    """The tokens of vLLM's outputs, a document each."""
    document = 0
    for where, output in _json_lines(path):
        outputs = output.get("choices", [output]) if isinstance(output, dict) else [output]
        for each in outputs:
            yield from _prompt(each, document, said, where)
            document += 1


def _prompt(output: Any, document: int, said: Said, where: str) -> Iterator[Token]:
    asked = output.get("prompt_logprobs") if isinstance(output, dict) else None
    if not isinstance(asked, list) or not asked:
        remedy = "Ask for them: SamplingParams(prompt_logprobs=0)."
        raise DataError("there are no prompt_logprobs", where, remedy)
    ids = output.get("prompt_token_ids")
    if ids is None:  # the server's answer; without alternatives, each place has the prompt's own token alone
        ids = [
            None,
            *(next(iter(place)) if isinstance(place, dict) and len(place) == 1 else None for place in asked[1:]),
        ]
    if len(ids) != len(asked):
        what = f"{len(ids)} tokens of the prompt, and {len(asked)} places of prompt_logprobs"
        raise DataError(what, where, "Is the output whole?")
    for position, (token, place) in enumerate(zip(ids, asked, strict=True)):
        if position == 0 and place is None:  # nothing stands before it
            continue
        at = f"{where}, position {position}"
        found = place.get(str(token)) if isinstance(place, Mapping) else None
        if not isinstance(found, Mapping) or found.get("rank") is None or found.get("logprob") is None:
            remedy = "Give prompt_token_ids too, or ask for prompt_logprobs=0: then each place has this token alone."
            raise DataError("rank and log-probability of the prompt's own token are missing", at, remedy)
        try:
            ranked = Token(document, position, int(token), float(found["rank"]), -float(found["logprob"]) + 0.0)
        except (TypeError, ValueError):
            raise DataError("rank or logprob is no number", at, "Is the file whole?") from None
        yield _checked(ranked, said, at)


def _csv(path: Path, said: Said) -> Iterator[Token]:
    """The rows of a table."""
    from rbp.core.tables import read_csv

    table = read_csv(path)
    if lacking := [name for name in ("document", "position", "token", "rank") if name not in table]:
        what, remedy = f"there is no column {lacking[0]}", "Columns: document, position, token, rank, logprob or nll."
        raise DataError(what, label(path), remedy)
    if ("nll" in table) == ("logprob" in table):
        raise DataError("one of the columns nll and logprob is needed", label(path), "Give one of them.")
    name, sign = ("nll", 1) if "nll" in table else ("logprob", -1)
    seen: set[tuple[int, int]] = set()
    for line, cells in zip(table.index, table.to_dict("records"), strict=True):
        where = f"{label(path)}, line {line}"
        try:
            document, position, token = (int(cells[column]) for column in ("document", "position", "token"))
            ranked = Token(document, position, token, float(cells["rank"]), sign * float(cells[name]) + 0.0)
        except (TypeError, ValueError):
            raise DataError("a cell is empty, or no number", where, "Fill it in.") from None
        if (document, position) in seen or min(document, position) < 0:
            what = f"document {document}, position {position} is there twice, or below 0"
            raise DataError(what, where, "Each token has one row.")
        seen.add((document, position))
        yield _checked(ranked, said, where)
