"""Read rows of tokens by a model or its copies: return what its output layer reads, or its logits."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock, get_ident
from typing import Any

import torch
from torch import nn

from rbp.errors import DataError, RbpError, first_line
from rbp.models.head import output_layer
from rbp.models.identity import Guard, fresh, is_shareable, unwrapped
from rbp.models.load import LanguageModel


class _Read(Exception):  # noqa: N818  # no error: it ends a forward pass before logits are computed
    def __init__(self, hidden: torch.Tensor) -> None:
        self.hidden = hidden


class Reader:
    """Reads rows of one length, by the model or by copies that share its weights, so that it stays as it is.

    Hidden states come from copies, logits from the model as it was given or loaded. steady: whether it keeps nothing of
    what it reads; else each pass is made by a copy that has read nothing. written: weights that the model writes to, of
    which each copy has its own. guarded: whether what is written to others is undone, and noted in `guard`.
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
        self.given = unwrapped(language.model)
        self.guard = Guard(language.model) if guarded else None
        self._copy: Any = None
        self._lock = Lock()

    def twin(self) -> Any:
        """Copy the model, in a state in which it has read nothing; the model itself, where copies cannot share it."""
        return fresh(self.language.model, self.written)

    def hidden(self, ids: torch.Tensor, model: Any = None) -> torch.Tensor | None:
        """Return what the output layer reads of rows [B, n]: [B, n, d]; None where logits are not its output.

        model: a copy that is to read them. Raises DataError where the model cannot read them.
        """
        if model is None:
            with self._lock:
                model = self._copy or self.twin()
                self._copy = model if self.steady else None

        def stop(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            if inputs:
                raise _Read(inputs[0])

        with self.running(ids.shape[1]), _before(output_layer(model), stop):
            try:
                model(input_ids=ids, use_cache=False)
            except _Read as read:
                return self._aligned(read.hidden, ids.shape[1])
        return None

    @property
    def written_to(self) -> list[str]:
        """List the names of weights that were written to, and were restored."""
        return sorted(self.guard.written) if self.guard else []

    def logits(
        self, ids: torch.Tensor, keep: torch.Tensor | None = None, perturbation: int | None = None, model: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the model's own logits of rows [B, n]: [B, n, V], and what its output layer read, where that is known.

        keep: the places to give, where not all, of a model that can do so. perturbation: a seed; all that is read is
        then moved by about as much as rounding. Where its logits then jump, as where two experts are equally good
        choices, they have no single value. model: what is to read them.
        """
        if model is None:
            model = self.given if self.steady else self.twin()
        seen = list[torch.Tensor]()
        some = {} if keep is None else {"logits_to_keep": keep}
        with (
            self.running(ids.shape[1]),
            _before(output_layer(model), lambda _, inputs: seen.extend(inputs[:1])),
            nullcontext() if perturbation is None else _perturbed(model, perturbation),
        ):
            logits = getattr(model(input_ids=ids, use_cache=False, **some), "logits", None)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 3:
            fault = f"{type(self.language.model).__name__} gives no logits for each token"
            raise DataError(fault, self.language.name, _NO_LOGITS)
        if logits.shape[-1] < self.language.vocabulary:
            kind, tokens = type(self.language.model).__name__, self.language.vocabulary
            fault = f"{kind} gives {logits.shape[-1]} logits for each token, and knows {tokens:,} tokens"
            raise DataError(fault, self.language.name, _NO_LOGITS)
        hidden = seen[0] if len(seen) == 1 and seen[0].shape[:2] == logits.shape[:2] else None
        places = ids.shape[1] if keep is None else len(keep)
        return self._aligned(logits, places), None if hidden is None else self._aligned(hidden, places)

    def _aligned(self, values: torch.Tensor, places: int) -> torch.Tensor:
        """Return the values of the tokens themselves: an adapter may put virtual ones before them."""
        surplus = values.shape[1] - places
        adapter: Any = getattr(self.language.model, "active_peft_config", None)
        if surplus and surplus != (adapter.num_virtual_tokens if getattr(adapter, "is_prompt_learning", False) else 0):
            fault = f"the model gives logits for {values.shape[1]} places where it reads {places} tokens"
            raise DataError(fault, self.language.name, "Give a model that has one prediction for each token.")
        return values[:, surplus:]

    @contextmanager
    def running(self, width: int) -> Iterator[None]:
        """Turn what the model's code raises on rows of `width` tokens, but for want of memory, into DataError."""
        # tensors of quantizers may forbid the former
        no_grad = torch.inference_mode() if is_shareable(self.given) else torch.no_grad()
        try:
            with no_grad, self.guard.watch() if self.guard else nullcontext():
                yield
        except (RbpError, _Read):
            raise
        except Exception as error:  # of any kind: a position beyond the last, a setting that is null
            if out_of_memory(error):
                raise
            fault = f"the model cannot read a row of {width} tokens: {first_line(error)}"
            raise DataError(fault, self.language.name, _REMEDY) from None


_NO_LOGITS = "Give a causal language model with its output layer."
_REMEDY = "Check its config.json (pad_token_id, for one), or take a shorter --length."


_REGISTERING = Lock()  # torch numbers hooks without one


def _before(layer: nn.Module | None, hook: Callable[[Any, Any], None]) -> AbstractContextManager[Any]:
    """Call `hook` before a layer runs, in this thread: others may run the same model."""
    if layer is None:
        return nullcontext()
    mine = get_ident()
    with _REGISTERING:
        return layer.register_forward_pre_hook(lambda *arguments: hook(*arguments) if get_ident() == mine else None)


def _perturbed(model: Any, seed: int) -> AbstractContextManager[Any]:
    draw, mine = torch.Generator().manual_seed(seed), get_ident()

    def moved(_: Any, __: Any, embeddings: torch.Tensor) -> torch.Tensor:
        if get_ident() != mine:
            return embeddings
        noise = torch.randn(embeddings.shape, generator=draw).to(embeddings.device)
        return embeddings * (1 + max(2 * torch.finfo(embeddings.dtype).eps, 3e-5) / 16 * noise).to(embeddings.dtype)

    try:
        with _REGISTERING:
            handle: AbstractContextManager[Any] = model.get_input_embeddings().register_forward_hook(moved)
            return handle
    except NotImplementedError:  # of a model that does not say where its embeddings are: it stays as it is
        return nullcontext()


def out_of_memory(error: Exception) -> bool:
    """Return whether an error says that memory is short."""
    # without a kind of its own on the CPU, from cuBLAS, and from CUDA where it loads a kernel
    phrases = "can't allocate memory", "ALLOC_FAILED", "out of memory"
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in phrases)
