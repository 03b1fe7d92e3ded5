"""Find the ranks that rounding can change: another logit is so near that its last bits decide the order.

Every processor sums the products behind a logit in an order of its own. So a rank is known but for the logits that lie
within that rounding of the truth's; how many these are is counted here from the logits themselves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rbp.arrays import Integers, Reals
from rbp.choices import Rounding, Settings
from rbp.extract.extraction import quiet
from rbp.metric import TieRule, rank
from rbp.models.devices import find_device
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.texts.corpora import open_corpus
from rbp.texts.protocol import Protocol, plan_rows

# By so many machine epsilons of a token's largest logit two computations of a logit may differ. Between AVX-512, AVX2,
# Zen's kernels and none of these, float32 logits of the ladder's models differed by 12.9 at most.
ROUNDING = 32


@dataclass(frozen=True)
class NearTies:
    """The least and the greatest counts that each ranked token can have, shape (T, 2) each.

    bound: how far its logits may lie from their computed values, shape (T,). greater: logits above the truth's;
    at_least: logits not below the truth's, which is included. computed: both counts of the logits as computed.
    """

    bound: Reals
    greater: Integers
    at_least: Integers
    computed: Integers

    def ranks(self, rule: TieRule) -> Integers | Reals:
        """Return the least and the highest rank of each token, shape (T, 2)."""
        return rank(self.greater, self.at_least - self.greater, rule)

    def across(self, k: int, rule: TieRule) -> int:
        """Count the tokens that have a rank of k or less for some such logits, and a higher one for others."""
        low, high = self.ranks(rule).T
        return int(((low <= k) & (high > k)).sum())

    def changing(self) -> int:
        """Count the tokens of which a count can change."""
        return int(((self.greater[:, 0] < self.greater[:, 1]) | (self.at_least[:, 0] < self.at_least[:, 1])).sum())

    def tied(self) -> int:
        """Count the tokens that may or may not share their score with another."""
        certain = self.at_least[:, 0] - self.greater[:, 1]
        possible = self.at_least[:, 1] - self.greater[:, 0]
        return int(((certain <= 1) & (possible > 1)).sum())

    def share_within(self, count: int, unit: float = 1.0) -> dict[str, Any]:
        """Bound the change of a share of the tokens if `count` of them can move: options for `Page.record`.

        `unit`: 1, or 100 for a share in percentage points.
        """
        return {"within": unit * count / len(self.bound), "because": f"{count} tokens lie within rounding"}

    def entropy_within(self) -> dict[str, Any]:
        """Bound the change of the mean of −ln p, in nats, in the same form."""
        known = self.bound.mean()
        return {"within": 2 * known, "because": f"logits are known to {known:.1g}"}


def near_ties(
    model: str, corpus: str, protocol: Protocol, settings: Settings, roundings: tuple[Rounding | None, ...] = (None,)
) -> list[NearTies]:
    """Count near ties for each way of rounding the logits, from the model's own logits of every ranked token.

    model, corpus, protocol, settings: as of the extraction. Raises as it does.
    """
    files = find_model(model)
    with quiet():
        language = load_model(files, settings.dtype, find_device(settings.device))
    rows = plan_rows(open_corpus(corpus, settings.fields), load_tokenizer(files), protocol).rows

    parts: list[list[NearTies]] = [[] for _ in roundings]
    for row in rows:
        ids = torch.from_numpy(row.ids).to(language.device)
        scored = torch.from_numpy(row.scored).to(language.device)
        with torch.inference_mode():
            logits = language.model(input_ids=ids[None], use_cache=False).logits[0, scored - 1]
        bound = ROUNDING * torch.finfo(logits.dtype).eps * logits.abs().amax(1)
        for part, rounding in zip(parts, roundings, strict=True):
            part.append(possible_counts(logits, ids[scored], bound, rounding))
    return [NearTies(*map(np.concatenate, zip(*map(_columns, part), strict=True))) for part in parts]


def _columns(ties: NearTies) -> tuple[Reals, Integers, Integers, Integers]:
    return ties.bound, ties.greater, ties.at_least, ties.computed


def possible_counts(
    logits: torch.Tensor, target: torch.Tensor, bound: torch.Tensor, rounding: Rounding | None
) -> NearTies:
    """Bound the counts of target [T] among logits [T, V], if each logit may be off by bound [T], then rounded."""

    wide = logits if logits.dtype == torch.float64 else logits.float()
    ends, middle = [wide - bound[:, None], wide + bound[:, None]], wide
    if rounding is not None:
        *ends, middle = (each.to(getattr(torch, rounding)) for each in (*ends, middle))
    truth = middle.gather(1, target[:, None])
    computed = torch.stack([_count(middle > truth), _count(middle >= truth)], dim=1)
    (low, high), (least, most) = ends, [end.gather(1, target[:, None]) for end in ends]
    for end in ends:
        end.scatter_(1, target[:, None], -torch.inf)  # the truth itself is counted once, by hand
    greater = torch.stack([_count(low > most), _count(high > least)], dim=1)
    at_least = torch.stack([_count(low >= most), _count(high >= least)], dim=1) + 1
    return NearTies(bound.double().cpu().numpy(), *(each.cpu().numpy() for each in (greater, at_least, computed)))


def _count(mask: torch.Tensor) -> torch.Tensor:
    return mask.sum(1, dtype=torch.int32).long()  # three times as fast as a sum in 64 bits
