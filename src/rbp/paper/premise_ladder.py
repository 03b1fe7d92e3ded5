"""The split of `premise` on the ladder, whose models run anew: a step of the workflow, apart as it loads torch."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from rbp.core.paths import LADDER
from rbp.evidence import histograms, open_source
from rbp.ladder import ranking
from rbp.paper.premise import GapParts, split_gap
from rbp.ranks.extraction import quiet
from rbp.ranks.models import LanguageModel, find_model, load_model, load_tokenizer
from rbp.ranks.protocols import Protocol, Row, plan_rows

TOKENS = 5000  # looked at for each model and domain


def split_of_ladder(model: Path, domain: str, chosen: Protocol) -> GapParts:
    """The split of one of the ladder's models on a domain: rows evenly spaced over its documents, run anew.

    Raises DataError if the model's weights are not there.
    """
    files = find_model(str(model))
    with quiet():
        language = load_model(files, "float32", torch.device("cpu"))
    rows = _rows(domain, chosen, LADDER / "models" / model.name, files.tokenizer_fingerprint())
    each = max(1, round(sum(len(row.scored) for row in rows) / TOKENS))
    return split_gap(_logits(language, rows[each // 2 :: each]))


_PLANNED: dict[tuple[str, Protocol, str], Sequence[Row]] = {}


def _rows(domain: str, chosen: Protocol, model: Path, tokenizer: str) -> Sequence[Row]:
    """The rows of a domain, cut once for all models of one tokenizer (named by its fingerprint)."""
    key = (domain, chosen, tokenizer)
    if key not in _PLANNED:
        texts = ranking.evaluation_corpus(domain, ranking.evaluation_documents(domain))
        _PLANNED[key] = plan_rows(texts, load_tokenizer(find_model(str(model))), chosen).rows
    return _PLANNED[key]


def _logits(language: LanguageModel, rows: Sequence[Row]) -> Iterable[tuple[Any, Any]]:
    for row in rows:
        ids, wanted = torch.from_numpy(row.ids)[None], torch.from_numpy(row.scored - 1)
        with torch.inference_mode():
            z = language.model(input_ids=ids, use_cache=False, logits_to_keep=wanted).logits[0]
        yield z.numpy(), row.ids[row.scored]


def make() -> pd.DataFrame:
    """The step `premise`: the split for every rung whose weights are shipped, on every domain.

    Entropy of ranks and cross-entropy are those of all ranked tokens; mixing and confidence are measured on a sample of
    rows, for which the model runs anew; profile is what remains of the gap. Columns dataset, model, family, size,
    cross_entropy, rank_entropy, gap, mixing, profile, confidence, confidence_error, sampled (tokens).
    """
    rows = []
    for own in open_source("ladder").histograms:
        folder = LADDER / "models" / own.model
        if own.store is None or not (folder / "model.safetensors").is_file():
            continue
        chosen = Protocol(**own.store.manifest["key"]["protocol"])
        found = split_of_ladder(folder, own.dataset, chosen)
        whole, entropy = histograms.entropy(own.counts)[0], float(own.cross_entropy or np.nan)
        row = {"dataset": own.dataset, "model": own.model, "family": own.family, "size": own.size}
        row |= {"cross_entropy": entropy, "rank_entropy": whole, "gap": whole - entropy, "mixing": found.mixing}
        row |= {"profile": whole - entropy - found.mixing + found.confidence, "confidence": found.confidence}
        rows.append(row | {"confidence_error": found.confidence_error, "sampled": found.tokens})
    return pd.DataFrame(rows)
