"""Type a sentence: what its page holds, and the weights that lie beside it.

What the page does with them is book/_static/neox.js (tokenizer and model) and sentence.js. The ranks with which it
opens are computed here, by torch.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from rbp.book.figure_style import FAMILIES, SPARE
from rbp.core import provenance
from rbp.core.errors import DataError, ParameterError
from rbp.core.files import parse_json, write_file
from rbp.core.paths import LADDER
from rbp.paper.display import shown
from rbp.paper.figures.ranking import CLASSES, COLOUR
from rbp.paper.near_ties import ROUNDING, NearTies, possible_counts
from rbp.ranks.extraction import quiet
from rbp.ranks.forward import rank_logits
from rbp.ranks.metric import rbp
from rbp.ranks.models import LanguageModel, ModelFiles, load_model

FIRST = ("10k", "59k", "390k")  # the models that a page loads unless others are chosen; 4 MB together
TEMPERATURES = (0.5, 1.0, 2.0)
LONGEST = 1500  # characters that are read, so that an address that holds them can be sent
TEN = 10  # tokens are shown of each prediction
EXAMPLES = {
    "an encyclopedia": "The river rises in the mountains of northern Italy and flows through the city of Turin, where "
    "it was first bridged in the 13th century.",
    "a program": "def is_even(n):\n    if n % 2 == 0:\n        return True\n    return False\n",
    "a judgment": "The applicant submitted that the Tribunal had failed to take into account a relevant consideration, "
    "and that its decision was affected by jurisdictional error.",
    "a question": "Which of the two rivers is longer, the one in the north of Spain or the one in the south of France?",
}


@dataclass(frozen=True)
class Shipped:
    """A model of the page: its label ("10k"), its folder of float16 weights, and its configuration."""

    label: str
    folder: Path
    config: dict[str, Any] = field(compare=False)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def context(self) -> int:
        """The most tokens that it reads."""
        return int(self.config["max_position_embeddings"])


def rungs(ladder: Path = LADDER) -> list[Shipped]:
    """The GPT-NeoX models that are shipped with their weights, the smallest first. Raises DataError for none."""
    found = []
    for path in ladder.glob("families/neox/*/config.json"):
        provenance.note(path, path.with_name("model.safetensors"))
        found.append(Shipped(path.parent.name.split("-")[1], path.parent, parse_json(path.read_bytes())))
    if not found:
        remedy = "Restore them: git checkout -- data/ladder."
        raise DataError("the weights of the GPT-NeoX family are missing", str(ladder / "families"), remedy)
    return sorted(found, key=lambda rung: int(rung.config["hidden_size"]))


def tokenizer_file(ladder: Path = LADDER) -> Path:
    """The tokenizer of all of the ladder's models."""
    path = ladder / "tokenizer" / "tokenizer.json"
    provenance.note(path)
    return path


# What Python says of a text


@dataclass(frozen=True)
class Read:
    """A text as one model reads it: its ids, n of them, and the logits [n, V] of what follows each (float32)."""

    rung: Shipped
    size: int
    ids: torch.Tensor
    logits: torch.Tensor

    def ranks(self) -> tuple[list[int], list[float]]:
        """Rank (greater + equal) and −ln p of each token but the first."""
        found = rank_logits(self.logits[:-1], self.ids[1:])
        return (found.greater + found.equal).tolist(), found.nll.tolist()

    def near(self) -> NearTies:
        """Which of these ranks rounding can change."""
        own = self.logits[:-1]
        bound = ROUNDING * torch.finfo(own.dtype).eps * own.abs().amax(1)
        return possible_counts(own, self.ids[1:], bound, None)

    def cross_entropy(self, temperature: float) -> float:
        """The mean of −ln p, in nats, of logits divided by the temperature."""
        logits = self.logits[:-1].double() / temperature
        return float(torch.nn.functional.cross_entropy(logits, self.ids[1:]))

    def shown(self) -> list[list[Any]]:
        """For each token but the first, and for what would come next: rank, −ln p, and the top ten with their p."""
        ranks, nll = self.ranks()
        highest, ids = torch.softmax(self.logits.double(), 1).topk(TEN)
        tops = [
            [[token, float(f"{p:.4g}")] for token, p in zip(tokens, shares, strict=True)]
            for tokens, shares in zip(ids.tolist(), highest.tolist(), strict=True)
        ]
        costs = [*(round(each, 5) for each in nll), None]
        return [list(each) for each in zip([*ranks, None], costs, tops, strict=True)]


@cache
def load(rung: Shipped) -> LanguageModel:
    """The model in float32, ready to read. Raises as `load_model`."""
    files = ModelFiles(rung.name, rung.folder, None, (rung.folder / "model.safetensors",))
    with quiet():
        return load_model(files, "float32", torch.device("cpu"))


def read(text: str, models: Sequence[Shipped]) -> list[Read]:
    """The text by each model: of its first LONGEST characters as many tokens as a model reads, two at least.

    Raises ParameterError for fewer.
    """
    ids = torch.tensor(Tokenizer.from_file(str(tokenizer_file())).encode(text[:LONGEST]).ids[: models[0].context])
    if len(ids) < 2:
        raise ParameterError("the text has fewer than two tokens", "text", "The first token is not ranked: give more.")
    found = []
    for rung in models:
        language = load(rung)
        with torch.inference_mode():
            found.append(Read(rung, language.size, ids, language.model(input_ids=ids[None], use_cache=False).logits[0]))
    return found


def summary(found: Sequence[Read]) -> pd.DataFrame:
    """A row for each model: label, size, tokens, rbp1, rbp10, rbp100, and the cross-entropy at each of TEMPERATURES."""
    rows = []
    for each in found:
        ranks = np.asarray(each.ranks()[0])
        shares = {f"rbp{k}": rbp(ranks, k) for k in (1, 10, 100)}
        costs = {f"cross_entropy.{temperature:g}": each.cross_entropy(temperature) for temperature in TEMPERATURES}
        rows.append({"label": each.rung.label, "size": each.size, "tokens": len(ranks), **shares, **costs})
    return pd.DataFrame(rows)


def recorded(found: Sequence[Read], weights: Mapping[str, int]) -> dict[str, float | int]:
    """How many models, their vocabulary, S of the smallest and the largest ticked at first, and the MB of weights."""
    chosen = at_first(found)
    first = [weights[each.rung.name] for each in chosen]
    return {
        "models": len(found),
        "vocabulary": found[0].logits.shape[1],
        **{f"size.{name}": each.size for name, each in (("smaller", chosen[0]), ("larger", chosen[-1]))},
        # to a tenth: versions of zlib may pack a little tighter
        "megabytes.first": round(sum(first) / 1e6, 1),
        "megabytes.all": round(sum(weights.values()) / 1e6, 1),
    }


def at_first(found: Sequence[Read]) -> list[Read]:
    """The models that a page has ticked at first."""
    return [each for each in found if each.rung.label in FIRST] or list(found[: len(FIRST)])


def recorded_ranks(found: Sequence[Read]) -> list[tuple[dict[str, float], dict[str, Any]]]:
    """RBP_1 of the smallest and of the largest model that is ticked at first, and the latter's cross-entropy at T = 1
    and 2: each with what `Page.record` takes besides.
    """
    told = []
    for name, read in zip(("smaller", "larger"), (at_first(found)[0], at_first(found)[-1]), strict=True):
        near, ranks = read.near(), np.asarray(read.ranks()[0])
        told.append(({f"rbp1.{name}": float(rbp(ranks, 1))}, near.share_within(near.across(1, "paper"))))
    moves = near.entropy_within()
    for temperature in (1, 2):
        cost = {f"cross_entropy.larger.t{temperature}": read.cross_entropy(temperature)}
        told.append((cost, moves | {"within": moves["within"] / temperature, "unit": "nats"}))
    return told


def summary_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The summary as a page shows it."""
    columns: dict[str | tuple[str, ...], Any] = {"label": "Model", "size": ("S", "{:,}")}
    columns |= {f"rbp{k}": (f"RBP{digits}", "{:.0%}") for k, digits in ((1, "₁"), (10, "₁₀"), (100, "₁₀₀"))}
    columns |= {f"cross_entropy.{each:g}": (f"cross-entropy at T = {each:g}", "{:.3f}") for each in TEMPERATURES}
    return shown(
        table,
        columns,
        caption=f"<b>The text at first, by Python.</b> Of its {table.tokens.iloc[0]} ranked tokens: RBPₖ, "
        "the same at every temperature T, and the mean of −ln p in nats.",
    )


# What the browser gets


def weights_script(rung: Shipped) -> str:
    """A model as a script: its shape, and its float16 weights without loss, for `unpack` of neox.js.

    All high bytes come before all low ones: the high ones, sign and exponent, deflate to seven tenths.
    """
    config = rung.config
    shape = {
        "vocabulary": config["vocab_size"],
        "width": config["hidden_size"],
        "inner": config["intermediate_size"],
        "heads": config["num_attention_heads"],
        "layers": config["num_hidden_layers"],
        "context": rung.context,
        "base": config["rope_parameters"]["rope_theta"],
        "epsilon": config["layer_norm_eps"],
    }
    tensors = {
        re.sub("^gpt_neox.", "", name): values for name, values in load_file(rung.folder / "model.safetensors").items()
    }
    if any(values.dtype != np.float16 for values in tensors.values()):
        raise DataError("these weights are not float16", str(rung.folder), "Ship them as `rbp ladder ship` does.")
    halves = np.concatenate([tensors[name].ravel() for name in sorted(tensors)]).astype("<f2").view(np.uint8)
    packed = base64.b64encode(zlib.compress(halves.reshape(-1, 2).T[::-1].tobytes(), 9)).decode()
    sizes = [[name, tensors[name].size] for name in sorted(tensors)]
    brought = json.dumps({"shape": shape, "tensors": sizes, "data": packed}, separators=(",", ":"))
    return f'sentence.take("{script_name(rung)}",{brought});\n'


def script_name(rung: Shipped) -> str:
    """The file of a model's script."""
    return f"{rung.name}.js"


def write_weights(models: Sequence[Shipped], folder: Path) -> dict[str, int]:
    """Write the models' scripts into a folder; returns the bytes of each, by the model's name."""
    sizes = {}
    for rung in models:
        content = weights_script(rung).encode()
        write_file(folder / script_name(rung), content)
        sizes[rung.name] = len(content)
    return sizes


def tokenizer_data() -> dict[str, Any]:
    """The tokenizer as neox.js takes it. Raises DataError for one that is not byte-level BPE as GPT-2's."""
    content = parse_json(tokenizer_file().read_bytes())
    model, before = content["model"], content["pre_tokenizer"]
    plain = content["normalizer"] is None and not model["ignore_merges"]
    if not plain or before != before | {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}:
        raise DataError(
            "the tokenizer is not byte-level BPE as GPT-2's", str(tokenizer_file()), "neox.js has no other."
        )
    ids = model["vocab"]
    return {
        "vocabulary": sorted(ids, key=ids.__getitem__),
        "merges": [ids[part] for merge in model["merges"] for part in merge],
        "special": [token["content"] for token in content["added_tokens"]],
    }


def sentence(text: str, found: Sequence[Read], weights: Mapping[str, int], folder: str) -> str:
    """The page's part where a text is typed, as HTML: it needs the two scripts, and draws itself in the browser.

    text: what stands there at first; found: it as each model reads it; weights: the bytes of each model's script;
    folder: where these lie, relative to the page.
    """
    chosen = {each.rung.label for each in at_first(found)}
    models = [
        {
            "name": each.rung.name,
            "label": each.rung.label,
            "size": each.size,
            "file": script_name(each.rung),
            "bytes": weights[each.rung.name],
            "chosen": each.rung.label in chosen,
        }
        for each in found
    ]
    gained = np.divide(found[0].ranks()[0], found[-1].ranks()[0])  # the token to open with: where size helps most
    data = {
        "tokenizer": tokenizer_data(),
        "models": models,
        "folder": folder,
        "text": text,
        "first": {each.rung.name: each.shown() for each in found},
        "at": 1 + int(np.argmax(gained)),
        "limit": found[0].rung.context,
        "characters": LONGEST,
        "examples": EXAMPLES,
        "classes": [[None if np.isinf(highest) else highest, name, strength] for highest, name, strength in CLASSES],
        "colour": COLOUR,
        "looks": [*FAMILIES.values(), *SPARE],
    }
    # Within a page, a script ends at the first "</script", wherever it stands.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        '<div class="rbp-sentence"><noscript><p>To type a text of your own, allow JavaScript.</p></noscript>'
        f'<script type="application/json">{packed}</script></div>'
    )
