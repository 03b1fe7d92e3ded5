"""What other programs found: ranks, as a rank store (vLLM, tables), or what sample logs of lm-eval tell of them."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from rbp.core.errors import DataError, ParameterError, first_line
from rbp.core.files import home_expanded, label, parse_json, sha256, write_file
from rbp.ranks.models import Dtype
from rbp.ranks.store import SCHEMA, find_place, full_disk, store_name

log = logging.getLogger(__name__)

FORMS = ("vllm", "csv", "lm-eval")
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


class Target(NamedTuple):
    """What a sample log says of a target: how many tokens it has, its −ln p (nats), whether all are the likeliest."""

    tokens: int
    nll: float
    greedy: bool


def import_ranks(path: str | Path, form: str, said: Said, out: Path, tokenizer: str | None = None) -> Path:
    """Keep what a file of another program says of ranks in the folder `out`; gives the place.

    form: "vllm", JSON lines with prompt_logprobs, or "csv", columns document, position, token, rank, and logprob or
    nll: these become a rank store, read under no other tie rule than it was counted by. "lm-eval", a log of samples of
    a task with targets: it tells whether a token is the likeliest, no ranks, so it becomes a measurement table, .csv,
    of RBP_1 and the cross-entropy of the targets that are one token by the `tokenizer`, a hub id or a folder. Raises
    DataError for a file that is malformed or not whole, and for a rank and a probability that cannot both be.
    """
    if form not in FORMS:
        raise ParameterError(f"ranks of {form!r}", "--from", f"There is: {', '.join(FORMS)}.")
    if (form == "lm-eval") != (tokenizer is not None):
        what = "a sample log does not say how many tokens a target has" if form == "lm-eval" else f"{form} needs none"
        raise ParameterError(what, "--tokenizer", "Give the model's with --from lm-eval, and with no other.")
    source = home_expanded(str(path))
    if tokenizer is not None:
        return _table(source, said, out, list(_lm_eval(source, said, _counter(tokenizer))))
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
        store.begin(key, _about(said), 1, len(tokens))
        for old in (store.folder / "parts").glob("*"):
            old.unlink()
        above = columns["rank"].astype(np.int64) - 1
        columns |= {"greater": above, "equal": np.ones_like(above)}
        store.write(0, {name: columns[name] for name in SCHEMA.names})
        store.finish({})
    return store.folder


def _about(said: Said) -> dict[str, Any]:
    return {name: value for name, value in asdict(said).items() if name not in ("dtype", "tie_rule")}


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


def _lm_eval(path: Path, said: Said, count: Callable[[str, str], int]) -> Iterator[Target]:
    """The targets of a sample log of lm-evaluation-harness, each once; count: the tokens of one after a context."""
    seen: dict[Any, str] = {}
    for where, sample in _json_lines(path):
        try:
            name, place = sample["doc_id"], str(sample["filter"])
            asked = [(str(each["arg_0"]), str(each["arg_1"])) for each in sample["arguments"].values()]
            found = [(float(ll), {"True": True, "False": False}[greedy]) for ll, greedy in sample["filtered_resps"]]
        except (TypeError, ValueError, KeyError, AttributeError):
            what = "there are no log-likelihoods of targets, with is_greedy beside them"
            remedy = "It must be a log (--log_samples) of a loglikelihood or multiple_choice task."
            raise DataError(what, where, remedy) from None
        if place != seen.get(name, place):  # the same answers through another filter
            continue
        if name in seen:
            raise DataError(f"document {name} is there twice", where, "Give the log of one task and one run.")
        seen[name] = place
        if len(found) != len(asked):
            what = f"{len(asked)} targets, and {len(found)} log-likelihoods"
            raise DataError(what, where, "Is the log whole?")
        right = _right([continuation for _, continuation in asked], str(sample.get("target")), where)
        target = Target(count(*asked[right]), -found[right][0] + 0.0, found[right][1])
        if not target.nll >= 0:
            what = f"{-target.nll:g} is no logarithm of a probability"
            raise DataError(what, where, "Log-probabilities are 0 at most.")
        p = math.exp(-target.nll)
        if target.tokens == 1 and (p * said.vocabulary < 1 - SLACK if target.greedy else 2 * p > 1 + SLACK):
            what = (
                f"a token of the probability {p:.3g} cannot be {'the' if target.greedy else 'other than the'} likeliest"
            )
            raise DataError(what, where, "Is it the right --vocabulary, and the model's own --tokenizer?")
        yield target


def _right(continuations: list[str], target: str, where: str) -> int:
    """Which of the continuations of a sample is the right one: its only one, or the choice that is its target."""
    if len(continuations) == 1:
        return 0
    named = {continuations.index(text) for i, text in enumerate(continuations) if target in (str(i), text.strip())}
    if len(named) != 1 or len({*continuations}) == 1:  # of which contexts are to be chosen, say
        what = f"which of the {len(continuations)} continuations is the target {target!r} is not clear"
        raise DataError(what, where, "Tasks that choose among targets are read, with one right choice.")
    return named.pop()


def _counter(name: str) -> Callable[[str, str], int]:
    """How many tokens the harness scores of a target after a context, with the tokenizer of this name."""
    from transformers import AutoTokenizer

    try:
        encode = AutoTokenizer.from_pretrained(home_expanded(name), trust_remote_code=False).encode
    except Exception as error:  # transformers raises many kinds
        what = f"cannot read the tokenizer: {first_line(error)}"
        raise DataError(what, name, "Give the hub id or the folder of the model.") from None

    def count(context: str, target: str) -> int:
        # as its TemplateLM._encode_pair does: spaces go to the target, whose tokens come after the context's own
        before = context.rstrip()
        if not before:
            return len(encode(context + target, add_special_tokens=False))
        return len(encode(context + target)) - len(encode(before))

    return count


def _table(source: Path, said: Said, out: Path, targets: list[Target]) -> Path:
    """Write the measurement table of the targets of one token; gives the file."""
    import pandas as pd

    one = [target for target in targets if target.tokens == 1]
    if not one:
        what = f"none of the {len(targets)} targets is one token"
        remedy = "A log says whether all tokens of a target are the likeliest: of one token alone that is RBP_1."
        raise DataError(what, str(source), remedy)
    if len(one) < len(targets):
        log.warning("%d of %d targets are one token: the others are left out", len(one), len(targets))
    hits, entropy = sum(target.greedy for target in one), math.fsum(target.nll for target in one) / len(one)
    if not (hits or math.isfinite(entropy)):
        raise DataError("no target is a hit, and one has the probability 0", str(source), "There is nothing to keep.")
    rows: list[tuple[str, int | None, float, int | None]]
    rows = [("neg_log_rbp", 1, -math.log(hits / len(one)) + 0.0, hits)] if hits else []
    rows += [("cross_entropy", None, entropy, None)] if math.isfinite(entropy) else []
    table = pd.DataFrame(rows, columns=["metric", "k", "value", "hits"]).astype({"k": "Int64", "hits": "Int64"})
    about = {name: value for name, value in _about(said).items() if name != "vocabulary"}
    told = f"lm-eval, targets of one token, {said.dtype}, ties: {said.tie_rule}"
    key = {"imported": sha256(source), "form": "lm-eval", "dtype": said.dtype, "tie_rule": said.tie_rule}
    place = out / f"{store_name(f'{Path(said.model).name}-{said.dataset}', key)}.csv"
    with full_disk(out):
        write_file(place, table.assign(**about, tokens=len(one), source=told).to_csv(index=False))
    return place
