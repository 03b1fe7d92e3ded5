"""Check on short rows and the longest one what must hold for a model's ranks to be right."""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from rbp.errors import DataError, ParameterError
from rbp.extract.reader import Reader
from rbp.models.head import Head, head_logits, tolerance, wide
from rbp.models.identity import Operations, is_shareable, untouched
from rbp.models.load import LanguageModel, looks_at_length
from rbp.names import and_more
from rbp.texts.protocol import Row

log = logging.getLogger(__name__)

SHORT = 65  # tokens of a short row
_CHANCE = "Switch off what is random in it, such as dropout."
_SAVE = "Save it with save_pretrained, and give the folder; of a quantized model, give it before it was quantized."
_CAUSAL = "Take a causal model, not a masked one, nor one that sorts all tokens into buckets, as Reformer does."


class Probe(NamedTuple):
    """The findings about a causal model that reads all rows.

    head: where its logits are one product. steady: it keeps nothing of what it reads; written: the weights that it
    writes to, if any. padded: it gives the same for rows that are padded; False where that was not to be found out.
    """

    head: Head | None
    steady: bool
    written: frozenset[str]
    padded: bool

    def reader(self, language: LanguageModel) -> Reader:
        """Make a reader of rows as the probe found them to be needed; a model of the caller's is always guarded."""
        return Reader(language, steady=self.steady, written=self.written, guarded=language.borrowed)


def probe_model(
    language: LanguageModel,
    rows: Sequence[Row],
    head: Head | None,
    width: Callable[[Row], int] | None = None,
    earlier: Probe | None = None,
) -> Probe:
    """Check before the work that a model reads the rows and is causal, and find out what may be taken for granted.

    width: the length that a row would be padded to, where it may be. earlier: what this found of the same model with
    other weights, which holds for these, but for the head. Raises DataError for a model that cannot read the rows, has
    no logits for each token, is not causal or gives other logits each time; ParameterError for float64 with a model
    that does not compute in it.
    """
    longest = max(rows, key=lambda row: len(row.ids))
    shortest = min(rows, key=lambda row: len(row.ids))
    by_length = {len(ids): _ids(language, ids) for ids in (shortest.ids[:SHORT], longest.ids[:SHORT])}
    short = list(by_length.values())  # one, where all rows are long
    if language.dtype == "float64":
        _check_double(Reader(language), short[-1])
    if earlier is not None:
        reader = Reader(language, steady=earlier.steady, written=earlier.written)
        return earlier._replace(head=_judged(list(map(reader.logits, short)), head))
    reader, head = _steadied(language, short[0], _ids(language, longest.ids), head)
    head = _judged(list(map(reader.logits, short[1:])), head)
    for ids in short:
        _check_causal(reader, head, ids)
    if written := reader.written_to:
        fault = f"a copy of the model, too, writes to the model's own {and_more(written)}"
        raise DataError(fault, language.name, "It is as before. Save it with save_pretrained, and give the folder.")
    padded = width is not None and _padding_is_unseen(reader, head, rows, width)
    if width is not None and not padded:
        log.warning("the model looks at the length of its input: rows are read unpadded, which is slower")
    return Probe(head, reader.steady, reader.written, padded)


def _ids(language: LanguageModel, ids: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids))[None].to(language.device)


Values = list[torch.Tensor]


def _steadied(
    language: LanguageModel, short: torch.Tensor, longest: torch.Tensor, head: Head | None
) -> tuple[Reader, Head | None]:
    """Make a reader that fits what the model keeps and writes; return the head too, or None if it is not its own.

    The model reads a short row as it was given; one copy reads that, then the longest row, which fails here and not
    after hours, then the short one again. If the last two differ, each row is read by a new copy. Raises DataError
    where the copy differs from the model.
    """
    reader, kind = Reader(language), type(language.model).__name__
    shared = is_shareable(language.model)

    def by_itself() -> tuple[Head | None, Values]:
        with untouched(language.model) if shared else nullcontext():  # of which copies are made afterwards
            output = reader.logits(short, model=reader.given)
        found = _judged([output], head)
        return found, [values for values in output[1 if found else 0 :] if values is not None]

    (found, first), copy = by_itself(), reader.twin()
    before = _ranked_values(reader, found, short, copy)
    reader.hidden(longest, copy)
    after = _ranked_values(reader, found, short, copy)
    dtype = getattr(torch, language.dtype)
    if _any_differ(first, before, dtype):
        if not shared or _any_differ(first, by_itself()[1], dtype):
            raise DataError("the model gives other logits each time it reads", kind, _CHANCE)
        raise DataError("a copy of the model gives other logits than the model itself", kind, _SAVE)
    written = reader.written_to
    steady = (
        not written and not _any_differ(before, after, dtype) and not looks_at_length(language.model.config.to_dict())
    )
    if written:
        log.info("the model writes to its weights: each row is read by a copy with its own of %s", and_more(written))
    elif not steady and not shared:
        raise DataError("the model keeps something of what it reads, and its weights cannot be shared", kind, _SAVE)
    elif not steady:
        log.info("the model keeps something of what it reads: each row is read by a copy")
    return Reader(language, steady=steady, written=frozenset(written)), found


def _judged(outputs: Sequence[tuple[torch.Tensor, torch.Tensor | None]], head: Head | None) -> Head | None:
    """Return the head if the model's own logits are its product as the model's dtype rounds it, for all tokens.

    outputs: of some rows the logits, and what the output layer read.
    """
    if head is None or all(_is_product(*output, head) for output in outputs):
        return head
    log.warning("the model's logits are not a single product, so its own logits are used, which is slower")
    return None


def _is_product(logits: torch.Tensor, hidden: torch.Tensor | None, head: Head) -> bool:
    if hidden is None or hidden.shape[-1] != head.weight.shape[1]:
        return False
    logits, hidden = logits[0].to(head.weight.device), hidden[0].to(head.weight.device)
    dtype = head.weight.dtype
    product = head_logits(head, hidden, dtype)
    if logits.shape != product.shape:
        return False
    near = tolerance(product, dtype, hidden, head)
    same = (wide(logits) == product) | product.isnan()  # NaN is the ranking's to name
    return bool((same | ((wide(logits) - product).abs() <= near)).all())


def _check_causal(reader: Reader, head: Head | None, ids: torch.Tensor) -> None:
    """Raise DataError if what ranks are made of depends on later tokens."""
    length, dtype = ids.shape[1], getattr(torch, reader.language.dtype)
    cuts = sorted({1, length // 2, length - 1} - {0, length})
    # the other tokens are as many: positions may be encoded by how many there are
    others = [torch.cat([ids[:, :cut], (ids[:, cut:] + 1) % reader.language.vocabulary], 1) for cut in cuts]

    def sees_ahead(first: Values, *rest: Values) -> bool:
        begun = (
            ([a[:, :cut] for a in first], [b[:, :cut] for b in values]) for cut, values in zip(cuts, rest, strict=True)
        )
        return any(_any_differ(*pair, dtype) for pair in begun)

    beside = _ranked_values(reader, head, torch.cat([ids, *others]))
    ahead = sees_ahead(*([values[i : i + 1] for values in beside] for i in range(1 + len(cuts))))
    # or does it look at its neighbours in the batch? Alone it reads what is ranked
    if ahead and sees_ahead(*(_ranked_values(reader, head, tokens) for tokens in (ids, *others))):
        kind = reader.language.model.config.model_type
        raise DataError("the model sees the tokens that it is asked to predict", kind, _CAUSAL)


def _ranked_values(reader: Reader, head: Head | None, ids: torch.Tensor, model: Any = None) -> Values:
    """Compute all that ranks depend on: what the output layer reads, and the logits where these are ranked."""
    if head is not None and (hidden := reader.hidden(ids, model)) is not None:
        return [hidden]
    return [logit for logit in reader.logits(ids, model=model) if logit is not None]


def _any_differ(first: Values, second: Values, dtype: torch.dtype) -> bool:
    return any(differ(a, b, dtype) for a, b in zip(first, second, strict=True))


def differ(first: torch.Tensor, second: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether two computations of the same vectors [..., d] differ by more than rounding.

    An entry is judged by itself and by the upper quartile of its vector's magnitudes: a few that are huge must not hide
    what the others do. NaN is the ranking's to name.
    """
    eps = torch.finfo(dtype).eps
    first, second = wide(first), wide(second)
    typical = first.abs().kthvalue(max(1, first.shape[-1] * 3 // 4), dim=-1, keepdim=True).values
    return bool(((first - second).abs() > 8 * eps * (256 if eps < 1e-5 else 2) * (typical + first.abs())).any())


def _padding_is_unseen(reader: Reader, head: Head | None, rows: Sequence[Row], width: Callable[[Row], int]) -> bool:
    """Return whether the model gives the same for rows as they are and padded: of eight lengths, or all that exist."""
    some = {len(row.ids): row for row in rows if width(row) > len(row.ids)}
    lengths = sorted(some, key=lambda length: width(some[length]) - length)
    spread = {lengths[round(i)] for i in np.linspace(0, len(lengths) - 1, 7)} if some else set()
    for length in sorted({max(lengths, default=0), *spread} - {0}):  # the longest, and the most padded among them
        ids = _ids(reader.language, some[length].ids)
        try:
            beside = _ranked_values(reader, head, torch.nn.functional.pad(ids, (0, width(some[length]) - length)))
        except DataError:  # positions that the model does not have
            return False
        alone = _ranked_values(reader, head, ids)
        dtype = getattr(torch, reader.language.dtype)
        if _any_differ(alone, [values[:, :length] for values in beside], dtype):
            return False
    return True


def _check_double(reader: Reader, ids: torch.Tensor) -> None:
    """Raise ParameterError if a model in float64 computes part of its logits of `ids` [1, n] in float32."""
    dtypes = set[Any]()
    with Operations(after=lambda result: dtypes.add(getattr(result, "dtype", None))):
        reader.logits(ids)
    if torch.float32 in dtypes:
        fault = f"{reader.language.model.config.model_type} computes parts in float32 whatever the dtype of its weights"
        raise ParameterError(fault, "--dtype", "Take float32: float64 would promise what it does not give.")
