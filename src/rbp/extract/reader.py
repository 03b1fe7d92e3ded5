"""Read rows of tokens by copies of a model: return what its output layer reads, or its logits."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any

import torch

from rbp.errors import DataError, RbpError, first_line
from rbp.extract.head import output_layer
from rbp.extract.models import LanguageModel
from rbp.extract.state import Guard, fresh


class _Read(Exception):  # noqa: N818  # no error: it ends a forward pass before logits are computed
    def __init__(self, hidden: torch.Tensor) -> None:
        self.hidden = hidden


class Reader:
    """Reads rows of one length by copies of a model that share its weights, so that it stays as it is.

    steady: whether the model keeps nothing of what it reads, so that one copy serves for all; else each pass is made by
    one that has read nothing. written: weights that the model writes to, of which each copy has its own. guarded:
    whether what is written to others is undone, and noted in `guard`.
    """

    def __init__(
        self,
        language: LanguageModel,
        *,
        steady: bool = False,
        written: frozenset[str] = frozenset(),
        guarded: bool = True,
    ) -> None:
        self.language, self.steady, self.written = language, steady, written
        self.guard = Guard(language.model) if guarded else None
        self._stopping: Any = None
        self._lock = Lock()

    def twin(self) -> Any:
        """Copy the model, in a state in which it has read nothing."""
        return fresh(self.language.model, self.written)

    def hidden(self, ids: torch.Tensor, twin: Any = None) -> torch.Tensor | None:
        """Return what the output layer reads of rows [B, n]: [B, n, d]; None where logits are not its output.

        twin: a copy prepared by `stopping` that is to read them. Raises DataError where the model cannot read them.
        """
        if twin is None:
            with self._lock:
                twin = self._stopping or stopping(self.twin())
                self._stopping = twin if self.steady else None
        with self.running(ids.shape[1]):
            try:
                twin(input_ids=ids, use_cache=False)
            except _Read as read:
                return self._aligned(read.hidden, ids.shape[1])
        return None

    @property
    def written_to(self) -> list[str]:
        """List the names of weights that were written to, and were restored."""
        return sorted(self.guard.written) if self.guard else []

    def logits(
        self, ids: torch.Tensor, keep: torch.Tensor | None = None, perturbation: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the model's own logits of rows [B, n]: [B, n, V], and what its output layer read, where that is known.

        keep: the places to give, where not all, of a model that can do so. perturbation: a seed; all that is read is
        then moved by about as much as rounding. Where its logits then jump, as where two experts are equally good
        choices, they have no single value.
        """
        twin, seen = self.twin(), list[torch.Tensor]()
        layer = output_layer(twin)
        if layer is not None:
            layer.register_forward_pre_hook(lambda _, given: seen.extend(given[:1]))
        if perturbation is not None:
            _perturb(twin, perturbation)
        some = {} if keep is None else {"logits_to_keep": keep}
        with self.running(ids.shape[1]):
            logits = getattr(twin(input_ids=ids, use_cache=False, **some), "logits", None)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 3:
            what = f"{type(self.language.model).__name__} gives no logits for each token"
            raise DataError(what, self.language.name, _NO_LOGITS)
        if logits.shape[-1] < self.language.vocabulary:
            kind, tokens = type(self.language.model).__name__, self.language.vocabulary
            what = f"{kind} gives {logits.shape[-1]} logits for each token, and knows {tokens:,} tokens"
            raise DataError(what, self.language.name, _NO_LOGITS)
        hidden = seen[0] if len(seen) == 1 and seen[0].shape[:2] == logits.shape[:2] else None
        places = ids.shape[1] if keep is None else len(keep)
        return self._aligned(logits, places), None if hidden is None else self._aligned(hidden, places)

    def _aligned(self, given: torch.Tensor, places: int) -> torch.Tensor:
        """Return the values of the tokens themselves: an adapter may put virtual ones before them."""
        surplus = given.shape[1] - places
        adapter: Any = getattr(self.language.model, "active_peft_config", None)
        if surplus and surplus != (adapter.num_virtual_tokens if getattr(adapter, "is_prompt_learning", False) else 0):
            what = f"the model gives logits for {given.shape[1]} places where it reads {places} tokens"
            raise DataError(what, self.language.name, "Give a model that has one prediction for each token.")
        return given[:, surplus:]

    @contextmanager
    def running(self, width: int) -> Iterator[None]:
        """Turn what the model's code raises on rows of `width` tokens, but for want of memory, into DataError."""
        try:
            with torch.inference_mode(), self.guard.watch() if self.guard else nullcontext():
                yield
        except (RbpError, _Read):
            raise
        except Exception as error:  # of any kind: a position beyond the last, a setting that is null
            if out_of_memory(error):
                raise
            what = f"the model cannot read a row of {width} tokens: {first_line(error)}"
            raise DataError(what, self.language.name, _REMEDY) from None


_NO_LOGITS = "Give a causal language model with its output layer."
_REMEDY = "Check its config.json (pad_token_id, for one), or take a shorter --length."


def stopping(twin: Any) -> Any:
    """Make a copy's forward passes end before its logits are computed."""
    layer = output_layer(twin)

    def stop(_: Any, given: tuple[torch.Tensor, ...]) -> None:
        if given:
            raise _Read(given[0])

    if layer is not None:
        layer.register_forward_pre_hook(stop)
    return twin


def _perturb(twin: Any, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)

    def moved(_: Any, __: Any, given: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(given.shape, generator=draw).to(given.device)
        return given * (1 + max(2 * torch.finfo(given.dtype).eps, 3e-5) / 16 * noise).to(given.dtype)

    try:
        twin.get_input_embeddings().register_forward_hook(moved)
    except NotImplementedError:  # of a model that does not say where its embeddings are: it stays as it is
        return


def out_of_memory(error: Exception) -> bool:
    """Return whether an error says that memory is short."""
    # without a kind of its own on the CPU, from cuBLAS, and from CUDA where it loads a kernel
    phrases = "can't allocate memory", "ALLOC_FAILED", "out of memory"
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in phrases)
