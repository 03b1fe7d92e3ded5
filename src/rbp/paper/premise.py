"""Cross-entropy, and the entropy of ranks: why they differ, and by what (the premise of equation 17).

In the context t a model's probabilities, sorted, are its profile q_t(1) ≥ q_t(2) ≥ …. Let π be the distribution of the
measured ranks, q̄ the mean profile, H the entropy. Cross-entropy is the mean of −ln q_t(R_t), and

    H(π) − CE = [H(q̄) − mean H(q_t)] + [H(π) − H(q̄)] − [CE − mean H(q_t)]
              =       mixing         +    profile     −     confidence.

Mixing is never negative: profiles differ between contexts. Profile and confidence vanish for a calibrated model. Only
for one that is calibrated and has the same profile everywhere is −Σ p ln p the cross-entropy.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.book.steps import step
from rbp.core.arrays import Reals
from rbp.core.errors import DataError
from rbp.core.paths import LADDER
from rbp.evidence import histograms, open_source
from rbp.evidence.histograms import MeasuredRanks
from rbp.paper.appendix_c.numbers import authors_points, equation_terms
from rbp.ranks.protocols import Protocol, Row, plan_rows
from rbp.stats.rank_families import family
from rbp.stats.rank_fits import fit

if TYPE_CHECKING:
    from rbp.ranks.models import ModelFiles

TOKENS = 5000  # of the ladder's, looked at for each model and domain


@dataclass(frozen=True)
class GapParts:
    """The gap between the entropy of ranks and the cross-entropy, and its parts, over `tokens` tokens (nats).

    rank_entropy − cross_entropy = mixing + profile − confidence. confidence_error: the standard error of the
    confidence, with blocks of tokens as units.
    """

    tokens: int
    cross_entropy: float
    rank_entropy: float
    profile_entropy: float
    mean_entropy: float
    confidence_error: float

    @property
    def gap(self) -> float:
        """H(π) − CE."""
        return self.rank_entropy - self.cross_entropy

    @property
    def mixing(self) -> float:
        """H(q̄) less the mean of H(q_t): what contexts differ by."""
        return self.profile_entropy - self.mean_entropy

    @property
    def profile(self) -> float:
        """H(π) − H(q̄): calibration of the mean profile."""
        return self.rank_entropy - self.profile_entropy

    @property
    def confidence(self) -> float:
        """CE less the mean of H(q_t): above 0 where the model is surer than it has reason to be."""
        return self.cross_entropy - self.mean_entropy


def split_gap(logits: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> GapParts:
    """The split over blocks of (logits [T, V], targets [T]). Ranks count ties against the token (equation 3).

    Raises DataError for no tokens.
    """
    blocks = []  # tokens, sum of −ln q(truth), sum of entropies
    profile: Reals | None = None
    ranks: list[npt.NDArray[np.int64]] = []
    for block, target in logits:
        z, truth = np.asarray(block, dtype=np.float32), np.asarray(target)
        if not len(truth):
            continue
        own = np.take_along_axis(z, truth[:, None], axis=1)
        ranks.append((z >= own).sum(axis=1, dtype=np.int64))
        ordered = -np.sort(-z, axis=1).astype(np.float64)
        q = np.exp(ordered - ordered[:, :1])
        sums = q.sum(axis=1)
        q /= sums[:, None]
        log_sums = ordered[:, 0] + np.log(sums)  # ln Σ exp z
        nll = log_sums - own[:, 0].astype(np.float64)
        blocks.append((len(truth), nll.sum(), log_sums.sum() - np.vdot(q, ordered)))
        profile = q.sum(axis=0) if profile is None else profile + q.sum(axis=0)
    if profile is None:
        raise DataError("there is no token to look at", "logits", "Give more rows.")
    total, nll_sum, entropy_sum = np.sum(blocks, axis=0)
    seen = np.bincount(np.concatenate(ranks))
    sizes, nlls, entropies_ = np.array(blocks).T
    confidence = (nll_sum - entropy_sum) / total
    return GapParts(
        tokens=int(total),
        cross_entropy=float(nll_sum / total),
        # with Miller and Madow's correction, which matters: a sample lacks many of the rare ranks
        rank_entropy=_entropy(seen / total) + (np.count_nonzero(seen) - 1) / (2 * total),
        profile_entropy=_entropy(profile / total),
        mean_entropy=float(entropy_sum / total),
        confidence_error=float(np.sqrt(((nlls - entropies_ - confidence * sizes) ** 2).sum()) / total),
    )


def _entropy(share: Reals) -> float:
    some = share[share > 0]
    return float(-(some * np.log(some)).sum())


def entropies(measured: Iterable[MeasuredRanks]) -> pd.DataFrame:
    """Cross-entropy beside the entropies that might stand for it, of every model.

    Columns dataset, model, family, size; cross_entropy: measured; rank_entropy: of the measured ranks, and bin_width,
    by how much bins leave it open; lognormal: of the discrete lognormal fitted to all ranks (at_limit: where it is a
    power law); formula, exact: by the authors' formula and by exact sums at their μ and σ, where there are any. From
    these gap: rank_entropy less cross_entropy, and gap_share of cross_entropy; shape, shape_authors: lognormal and
    exact less rank_entropy; approximation: formula less exact; formula_excess: formula less cross_entropy.
    """
    given = equation_terms(authors_points()).set_index("model")
    rows = []
    for own in measured:
        smooth, least, most = histograms.entropy(own.counts)
        found = fit(family("lognormal"), own.counts)
        row = {"dataset": own.dataset, "model": own.model, "family": own.family, "size": own.size}
        row |= {"cross_entropy": np.nan if own.cross_entropy is None else own.cross_entropy}
        row |= {"rank_entropy": smooth, "bin_width": most - least}
        row |= {"lognormal": found.distribution.entropy, "at_limit": found.at_limit}
        there = own.model in given.index and own.dataset == "wikipedia"
        row |= {"formula": float(given["entropy_approx"][own.model]) if there else np.nan}
        row |= {"exact": float(given["entropy"][own.model]) if there else np.nan}
        rows.append(row)
    table = pd.DataFrame(rows)
    gap = table["rank_entropy"] - table["cross_entropy"]
    return table.assign(
        gap=gap,
        gap_share=gap / table["cross_entropy"],
        shape=table["lognormal"] - table["rank_entropy"],
        shape_authors=table["exact"] - table["rank_entropy"],
        approximation=table["formula"] - table["exact"],
        formula_excess=table["formula"] - table["cross_entropy"],
    )


# ── The ladder, whose models run anew


def split_of_ladder(model: Path, domain: str, chosen: Protocol, tokens: int = TOKENS) -> GapParts:
    """The split of one of the ladder's models on a domain: rows evenly spaced over its documents, run anew.

    Raises DataError if the model's weights are not there.
    """
    import torch  # here, since who reads the step's table does without

    from rbp.ranks.extraction import quiet
    from rbp.ranks.models import find_model, load_model

    files = find_model(str(model))
    with quiet():
        language = load_model(files, "float32", torch.device("cpu"))
    rows = _rows(domain, chosen, files)
    each = max(1, round(sum(len(row.scored) for row in rows) / tokens))

    def logits() -> Iterator[tuple[Any, Any]]:
        for row in rows[each // 2 :: each]:
            ids, wanted = torch.from_numpy(row.ids)[None], torch.from_numpy(row.scored - 1)
            with torch.inference_mode():
                z = language.model(input_ids=ids, use_cache=False, logits_to_keep=wanted).logits[0]
            yield z.numpy(), row.ids[row.scored]

    return split_gap(logits())


_PLANNED: dict[tuple[str, Protocol, str], Sequence[Row]] = {}


def _rows(domain: str, chosen: Protocol, files: "ModelFiles") -> Sequence[Row]:
    """The rows of a domain, cut once for all models of one tokenizer (named by its fingerprint)."""
    from rbp.ladder import ranking
    from rbp.ranks.models import load_tokenizer

    key = (domain, chosen, files.tokenizer_fingerprint())
    if key not in _PLANNED:
        texts = ranking.evaluation_corpus(domain, ranking.evaluation_documents(domain))
        _PLANNED[key] = plan_rows(texts, load_tokenizer(files), chosen).rows
    return _PLANNED[key]


@step("premise", reads=["data/ladder"], seconds=16)
def split_by_rung() -> pd.DataFrame:
    """The split for every rung whose weights are shipped, on every domain.

    Entropy of ranks and cross-entropy are those of all ranked tokens; mixing and confidence are measured on a sample of
    rows, for which the model runs anew; profile is what remains of the gap. Columns dataset, model, family, size,
    cross_entropy, rank_entropy, gap, mixing, profile, confidence, confidence_error, sampled (tokens).
    """
    rows = []
    for own in open_source("ladder").histograms:
        folder = LADDER / "families" / own.family / own.model
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


def judged(split: pd.DataFrame) -> dict[str, int]:
    """What the table of `split_by_rung` shows: where mixing grows, and where two parts have the same sign."""
    mixing = split.sort_values("size").groupby("dataset")["mixing"]
    return {
        "mixing_grows": int((mixing.last() > mixing.first()).sum()),
        "mixing_datasets": int(mixing.ngroups),
        "split_cancel": int((np.sign(split["profile"]) == np.sign(split["confidence"])).sum()),
        "split_cells": len(split),
    }
