"""The tokenizer of a rank store, which keeps the numbers of tokens and no text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rbp.errors import RbpError
from rbp.io import exists, home_expanded
from rbp.store import RankStore


def find_tokenizer(stores: Sequence[RankStore], by_hand: str | None = None) -> Any:
    """Find the tokenizer that one of the stores was made with, if its model is where it was; else None.

    Its files must be those that were read then. Nothing is downloaded: of a hub model, the cache is looked at. by_hand:
    the folder of the tokenizer, which is taken as it is. Raises DataError where that holds none.
    """
    if by_hand is not None:
        from rbp.models.find import ModelFiles, given_tokenizer
        from rbp.models.load import load_tokenizer

        folder = given_tokenizer(by_hand)
        return load_tokenizer(ModelFiles(by_hand, folder, None, (), by_hand=folder))
    for store in stores:
        try:
            if (tokenizer := _recorded(store)) is not None:
                return tokenizer
        except (RbpError, OSError):  # it was moved, or is no longer in the cache
            continue
    return None


def _recorded(store: RankStore) -> Any:
    """Load the tokenizer that a store names; None where it has changed since, or was never named."""
    key, commit = store.manifest["key"], store.manifest["key"].get("revision")
    if "tokenizer" not in key or not (commit or exists(home_expanded(store.model))):
        return None
    from rbp.models.find import ModelFiles, find_model
    from rbp.models.load import load_tokenizer

    if commit is None:
        files = find_model(store.model, store.training.revision)
    else:
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(store.model, revision=commit, local_files_only=True))
        files = ModelFiles(store.model, folder, commit, ())
    tokenizer = load_tokenizer(files)
    return tokenizer if files.tokenizer_fingerprint(tokenizer) == key["tokenizer"] else None
