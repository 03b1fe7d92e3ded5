"""The ladder's tokenizer, and the rows of tokens that every rung reads in the same order."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError
from rbp.ladder.recipe import Recipe
from rbp.ladder.texts import Document, Texts

END = "<|endoftext|>"


def make_tokenizer(texts: Texts, recipe: Recipe) -> Any:
    """The ladder's tokenizer: of the same number of characters of each source, whole documents at random.

    Raises DataError if the text gives fewer tokens than the recipe asks for.
    """
    tokenizer = byte_level_bpe(_sample(texts, recipe), recipe.text.vocabulary)
    if len(tokenizer) != recipe.text.vocabulary:
        what = f"the text gives only {len(tokenizer)} tokens"
        raise DataError(what, "ladder.toml, vocabulary", "Give more text or a smaller vocabulary.")
    return tokenizer


def byte_level_bpe(texts: Iterable[str], vocabulary: int) -> Any:
    """A byte-level BPE tokenizer of at most `vocabulary` tokens: it writes any text; the end of a text is token 0."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    whole: Any = PreTrainedTokenizerFast  # untyped
    return whole(tokenizer_object=raw, bos_token=END, eos_token=END)


def _sample(texts: Texts, recipe: Recipe) -> Iterator[str]:
    for documents in texts.training.values():
        left = recipe.text.characters
        for i in np.random.default_rng(recipe.text.seed).permutation(len(documents)):
            if left <= 0:
                break
            yield documents[i].text[:left]
            left -= len(documents[i].text)


def streams(texts: Texts, tokenizer: Any) -> dict[str, npt.NDArray[np.uint16]]:
    """The tokens of each source: its documents in order, the end of a text before each; uint16."""
    return {name: _stream(documents, tokenizer) for name, documents in texts.training.items()}


def make_rows(sources: dict[str, npt.NDArray[np.uint16]], recipe: Recipe) -> npt.NDArray[np.uint16]:
    """The training tokens [rows, context + 1], in the order in which they are read; uint16.

    The stream of a source is cut into rows of context + 1 tokens that overlap by one, so that every token is
    predicted once. An equal number of rows of each source is drawn, and all are shuffled. Raises DataError if a
    source has too little text.
    """
    random = np.random.default_rng(recipe.text.seed)
    context, rows = recipe.text.context, recipe.text.tokens // recipe.text.context
    chosen = []
    for number, (name, stream) in enumerate(sources.items()):
        share = rows // len(sources) + (number < rows % len(sources))
        there = max(0, len(stream) - 1) // context
        if there < share:
            what = f"{name} has {there * context:,} tokens, and {share * context:,} are wanted"
            raise DataError(what, "ladder.toml, tokens", "Give more text, or fewer tokens.")
        starts = random.permutation(there)[:share] * context
        chosen.append(stream[starts[:, None] + np.arange(context + 1)])
    whole = np.concatenate(chosen)
    return whole[random.permutation(len(whole))]


def _stream(documents: list[Document], tokenizer: Any) -> npt.NDArray[np.uint16]:
    end = np.array([tokenizer.eos_token_id], np.uint16)
    pieces = [np.zeros(0, np.uint16)]  # nothing is left of a source if all is held out
    for first in range(0, len(documents), 64):
        texts = [document.text for document in documents[first : first + 64]]
        for ids in tokenizer(texts, verbose=False)["input_ids"]:
            pieces += [end, np.array(ids, np.uint16)]
    return np.concatenate(pieces)
