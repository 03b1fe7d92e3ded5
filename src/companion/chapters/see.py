"""Chapter "See a rank": a sentence ranked as it is typed, and invented models of known ranks and cross-entropies.

What the page does with the sentence is book/_static/neox.js (tokenizer and model) and sentence.js; the ranks with which
it opens are computed here, by torch. Nothing of the invented models is measured: each function takes plain numbers or a
seed, and is deterministic.
"""

import base64
import html
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from matplotlib.axes import Axes
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from companion.execute.page import data_within
from companion.project import DATA, LADDER
from rbp import metric, provenance
from rbp.arrays import Integers, Reals
from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import quiet
from rbp.extract.forward import rank_logits
from rbp.figures.style import LABELS, Panels, log_axis, rbp_label
from rbp.io import parse_json, write_file
from rbp.models.find import ModelFiles
from rbp.models.load import LanguageModel, load_model
from rbp.report.display import CLASSES, COLOUR, shade

# ── A sentence of the reader's own

FIRST = ("10k", "59k", "390k")  # the models that a page loads unless others are chosen; 4 MB together
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
    """A model on the page: its folder of float16 weights, and its configuration."""

    folder: Path
    config: dict[str, Any] = field(compare=False)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def label(self) -> str:
        """Its name on the page: "10k"."""
        return self.name.split("-")[1]

    @property
    def context(self) -> int:
        """The most tokens that it reads."""
        return int(self.config["max_position_embeddings"])

    @property
    def script(self) -> str:
        """The file of its weights as a script."""
        return f"{self.name}.js"


def find_rungs(ladder: Path = LADDER) -> list[Shipped]:
    """Find the GPT-NeoX models that are shipped with their weights, the smallest first. Raises DataError for none."""
    models = []
    for path in ladder.glob("families/neox/*/config.json"):
        provenance.note(path, path.with_name("model.safetensors"))
        models.append(Shipped(path.parent, parse_json(path.read_bytes())))
    if not models:
        remedy = "Restore them: git checkout -- data/ladder."
        raise DataError("the weights of the GPT-NeoX family are missing", str(ladder / "families"), remedy)
    return sorted(models, key=lambda rung: int(rung.config["hidden_size"]))


def tokenizer_file() -> Path:
    """Return the tokenizer's file, of all of the ladder's models."""
    path = LADDER / "tokenizer" / "tokenizer.json"
    provenance.note(path)
    return path


# What Python says of a text


@dataclass(frozen=True)
class Read:
    """A text as one model reads it: n ids, and the logits [n, V] of what follows each (float32)."""

    rung: Shipped
    size: int
    ids: torch.Tensor
    logits: torch.Tensor

    def ranks(self) -> tuple[list[int], list[float]]:
        """Rank (greater + equal) and −ln p of each token but the first."""
        counts = rank_logits(self.logits[:-1], self.ids[1:])
        return (counts.greater + counts.equal).tolist(), counts.nll.tolist()

    def predictions(self) -> list[list[Any]]:
        """List for each token but the first, and for what would come next: rank, −ln p, and the top ten with p."""
        ranks, nll = self.ranks()
        highest, ids = torch.softmax(self.logits.double(), 1).topk(TEN)
        tops = [
            [[token, float(f"{p:.4g}")] for token, p in zip(tokens, shares, strict=True)]
            for tokens, shares in zip(ids.tolist(), highest.tolist(), strict=True)
        ]
        costs = [*(round(cost, 5) for cost in nll), None]
        return [list(prediction) for prediction in zip([*ranks, None], costs, tops, strict=True)]


@cache
def load_rung(rung: Shipped) -> LanguageModel:
    """Load the model in float32. Raises as `load_model`."""
    files = ModelFiles(rung.name, rung.folder, None, (rung.folder / "model.safetensors",))
    with quiet():
        return load_model(files, "float32", torch.device("cpu"))


def read_text(text: str, models: Sequence[Shipped]) -> list[Read]:
    """Read the text by each model: of its first LONGEST characters as many tokens as a model reads, two at least.

    Raises ParameterError for fewer.
    """
    ids = torch.tensor(Tokenizer.from_file(str(tokenizer_file())).encode(text[:LONGEST]).ids[: models[0].context])
    if len(ids) < 2:
        raise ParameterError("the text has fewer than two tokens", "text", "The first token is not ranked: give more.")
    readings = []
    for rung in models:
        language = load_rung(rung)
        with torch.inference_mode():
            readings.append(
                Read(rung, language.size, ids, language.model(input_ids=ids[None], use_cache=False).logits[0])
            )
    return readings


def count_models(readings: Sequence[Read], weights: Mapping[str, int]) -> dict[str, float | int]:
    """Count the models; give S of the smallest and the largest ticked at first, and the MB of weights."""
    chosen = at_first(readings)
    first = [weights[reading.rung.name] for reading in chosen]
    return {
        "models": len(readings),
        **{f"size.{name}": reading.size for name, reading in (("smaller", chosen[0]), ("larger", chosen[-1]))},
        # to a tenth: versions of zlib may pack a little tighter
        "megabytes.first": round(sum(first) / 1e6, 1),
    }


def at_first(readings: Sequence[Read]) -> list[Read]:
    """Select the models that a page has ticked at first."""
    return [reading for reading in readings if reading.rung.label in FIRST] or list(readings[: len(FIRST)])


def top_shares(readings: Sequence[Read]) -> dict[str, float]:
    """Compute RBP_1 of the smallest and the largest model ticked at first."""
    extremes = {"smaller": at_first(readings)[0], "larger": at_first(readings)[-1]}
    return {f"rbp1.{name}": float(metric.rbp(np.asarray(read.ranks()[0]), 1)) for name, read in extremes.items()}


# What the browser gets


def weights_script(rung: Shipped) -> str:
    """Write a model as a script: its shape, and its float16 weights without loss, for `unpack` of neox.js.

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
    return f'sentence.take("{rung.script}",{brought});\n'


def write_weights(models: Sequence[Shipped], folder: Path | None) -> dict[str, int]:
    """Write the models' scripts into a folder, if one is given; return the bytes of each, by the model's name."""
    sizes = {}
    for rung in models:
        content = weights_script(rung).encode()
        if folder:
            write_file(folder / rung.script, content)
        sizes[rung.name] = len(content)
    return sizes


def tokenizer_data() -> dict[str, Any]:
    """Pack the tokenizer as neox.js takes it. Raises DataError for one that is not byte-level BPE as GPT-2's."""
    content = parse_json(tokenizer_file().read_bytes())
    model, before = content["model"], content["pre_tokenizer"]
    plain = content["normalizer"] is None and not model["ignore_merges"]
    if not plain or before != before | {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}:
        raise DataError(
            "the tokenizer is not byte-level BPE as GPT-2's", str(tokenizer_file()), "neox.js reads no other."
        )
    ids = model["vocab"]
    return {
        "vocabulary": sorted(ids, key=ids.__getitem__),
        "merges": [ids[part] for merge in model["merges"] for part in merge],
        "special": [token["content"] for token in content["added_tokens"]],
    }


def sentence(text: str, readings: Sequence[Read], weights: Mapping[str, int], folder: str) -> str:
    """Build the part of the page where a text is typed, as HTML, which two scripts fill in the browser.

    text: at first; readings: it as each model reads it; weights: the bytes of each model's script;
    folder: where these lie, relative to the page.
    """
    chosen = {reading.rung.label for reading in at_first(readings)}
    models = [
        {
            "name": reading.rung.name,
            "label": reading.rung.label,
            "size": reading.size,
            "file": reading.rung.script,
            "bytes": weights[reading.rung.name],
            "chosen": reading.rung.label in chosen,
        }
        for reading in readings
    ]
    gained = np.divide(readings[0].ranks()[0], readings[-1].ranks()[0])  # the token to open with: where size helps most
    data = {
        "tokenizer": tokenizer_data(),
        "models": models,
        "folder": folder,
        "text": text,
        "first": {reading.rung.name: reading.predictions() for reading in readings},
        "at": 1 + int(np.argmax(gained)),
        "limit": readings[0].rung.context,
        "characters": LONGEST,
        "examples": EXAMPLES,
        "classes": [[None if np.isinf(highest) else highest, name, strength] for highest, name, strength in CLASSES],
        "colour": COLOUR,
    }
    without = "<noscript><p>To type a text of your own, allow JavaScript.</p></noscript>"
    return f'<div class="rbp-sentence">{without}{data_within(data)}</div>'


# ── A sentence to look at: no script is needed

REAL = DATA / "real" / "sentence.json"  # as `python -m companion.evidence.real sentence` leaves it
FIRST_TOKENS = 3  # of a text, which any model ranks badly: see `noise`


def real_sentence() -> dict[str, Any]:
    """Read the sentence that a real model ranked: "size", and for each of "tokens" the keys of `real.rank_sentence`."""
    provenance.note(REAL)
    sentence: dict[str, Any] = parse_json(REAL.read_bytes())
    return sentence


def ranked_words(sentence: Mapping[str, Any]) -> str:
    """Colour a sentence's tokens by rank, as HTML; the chosen token shows what the model expected there."""
    first, *tokens = sentence["tokens"]
    pieces = [
        f'<span class="rbp-piece" title="The first token has no rank.">{_visible(first["text"])}<small>–</small></span>'
    ]
    opened = max(tokens[FIRST_TOKENS:] or tokens, key=lambda token: token["rank"])
    for token in tokens:
        text, rank, expected = token["text"], token["rank"], token["expected"]
        rows = [_candidate(place, word, p, right=place == rank) for place, (word, p) in enumerate(expected, 1)]
        if rank > len(expected):
            rows.append(_candidate(rank, text, float(np.exp(-token["nll"])), right=True))
        colour, chosen = shade(rank), " checked" * (token is opened)
        begins = " rbp-begins" * text.startswith(" ")
        pieces.append(
            f'<span class="rbp-choice"><label class="rbp-piece{begins}" style="{colour}">'
            f'<input type="radio" name="rbp-piece"{chosen}>{_visible(text)}'
            f'<small><span class="rbp-unseen"> rank </span>{rank:,}</small></label><table class="rbp-table">'
            f"<caption>“{_visible(text)}” has rank {rank:,}</caption><tbody>{''.join(rows)}</tbody></table></span>"
        )
    key = " ".join(f'<span style="{shade(highest)}">&nbsp;{name}&nbsp;</span>' for highest, name, _ in CLASSES)
    return (
        '<figure class="rbp-figure" id="words"><fieldset class="rbp-words"><legend>Choose a token</legend>'
        f"{''.join(pieces)}</fieldset><figcaption><b>Ranked by SmolLM2-135M-Instruct</b>, with 4-bit weights. "
        f"Small: the rank, {key}. Choose another token to see what the model expected there. The first tokens of a "
        "text rank badly, since little stands before them.</figcaption></figure>"
    )


def _visible(text: str) -> str:
    return html.escape(text.strip()) or "␣"


def _candidate(rank: int, text: str, p: float, *, right: bool) -> str:
    share = f"{p:.0%}" if p >= 0.0995 else f"{p:.1%}" if p >= 0.0005 else "&lt; 0.1%"
    kind, mark = (' class="rbp-sentence-truth"', " ◂ the text") if right else ("", "")
    return (
        f'<tr{kind} style="--p:{p:.2%}"><td class="num">{rank:,}</td><td class="txt">{_visible(text)}{mark}</td>'
        f'<td class="num">{share}</td></tr>'
    )


# ── Invented models

CITIES = ("Canberra", "Sydney", "Melbourne", "Perth", "Hobart")
FIGURE_1 = {"Outranked": (0.28, 0.33, 0.30, 0.06, 0.03), "First": (0.28, 0.22, 0.20, 0.17, 0.13)}
"""The paper's figure 1, the truth first: its probability and its two ranks are the paper's, all else is ours."""
#: the truth, and all other tokens
TRUTH, OTHER = "#B3541E", "#6B7C93"


def ranks_of(scores: npt.ArrayLike, truth: npt.ArrayLike, rule: metric.TieRule) -> Integers | Reals:
    """Rank each truth among its scores: `metric.rank` of `metric.greater_equal`, with their errors."""
    return metric.rank(*metric.greater_equal(scores, truth), rule)


def build_even(p_truth: npt.ArrayLike, vocabulary: int) -> Reals:
    """Build distributions that give the truth `p_truth` and share the rest evenly among all other tokens.

    p_truth: shape (M,), each in (0, 1). Returns shape (M, vocabulary); the truth is token 0. The truth comes
    first wherever p_truth exceeds (1 − p_truth)/(vocabulary − 1): the best rank that its probability allows.
    Raises ParameterError for a vocabulary below 2 or probabilities outside (0, 1).
    """
    p = _probabilities(p_truth, vocabulary)
    others = np.repeat(((1 - p) / (vocabulary - 1))[:, None], vocabulary - 1, axis=1)
    return np.column_stack([p, others])


def build_crowded(p_truth: npt.ArrayLike, vocabulary: int) -> Reals:
    """Build distributions that give the truth `p_truth` and put as many rivals as possible above it.

    Tokens with at least the truth's probability number at most 1/p_truth, so its rank is ⌊1/p_truth⌋ at worst:
    the rest is shared evenly by ⌊1/p_truth⌋ − 1 rivals, all others get nothing; below one rival, one token takes it
    all. Shapes, order and errors as for `build_even`, and a vocabulary with too little room for the rivals is an error.
    """
    p = _probabilities(p_truth, vocabulary)
    rivals = np.maximum(np.floor(1 / p) - 1, 1)
    if rivals.max() > vocabulary - 1:
        raise ParameterError(
            f"a truth of probability {p.min():g} can have {rivals.max():.0f} rivals", "vocabulary", "Enlarge it."
        )
    place = np.arange(1, vocabulary)
    others = np.where(place <= rivals[:, None], ((1 - p) / rivals)[:, None], 0.0)
    return np.column_stack([p, others])


def simulated_scores(seed: int, positions: int, vocabulary: int) -> tuple[Reals, npt.NDArray[np.int64]]:
    """Simulate scores of an invented model, and truths from its softmax: at temperature 1 its probabilities are right.

    The score of token v is 12 − 1.2·ln v + 2.5·(standard normal), so that low tokens are common words.
    Returns scores (positions, vocabulary) and truths (positions,). Raises ParameterError for no position, or a
    vocabulary below 2.
    """
    if positions < 1 or vocabulary < 2:
        raise ParameterError("a simulation needs a position and two tokens", "positions, vocabulary", "Raise them.")
    rng = np.random.default_rng(seed)
    scores = 12 - 1.2 * np.log(np.arange(1, vocabulary + 1))
    scores = scores + 2.5 * rng.standard_normal((positions, vocabulary))
    # the largest of (score + Gumbel noise) is a draw from the softmax of the scores
    return scores, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(np.int64)


def p_truth(scores: Reals, truth: npt.NDArray[np.int64], temperature: float = 1.0) -> Reals:
    """Compute the softmax probability of the truth, with scores divided by `temperature`; shape (positions,).

    Raises ParameterError unless the temperature is above 0.
    """
    if not temperature > 0:
        raise ParameterError(f"a temperature must be above 0, not {temperature}", "temperature", "1 changes nothing.")
    scaled = (scores - scores.max(axis=1, keepdims=True)) / temperature
    correct = np.take_along_axis(scaled, truth[:, None], axis=1)[:, 0]
    return np.asarray(np.exp(correct) / np.exp(scaled).sum(axis=1), dtype=np.float64)


def round_significand(values: npt.ArrayLike, bits: int) -> Reals:
    """Round values to the nearest number with a significand of `bits` bits (float32 has 24, bfloat16 8).

    The range of the exponent is not limited. Raises ParameterError unless 1 ≤ bits ≤ 53.
    """
    if not 1 <= bits <= 53:
        raise ParameterError(f"a significand has 1 to 53 bits, not {bits}", "bits", "bfloat16 has 8.")
    part, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    return np.asarray(np.ldexp(np.rint(np.ldexp(part, bits)), exponent - bits), dtype=np.float64)


def tie_ranks() -> dict[str, float]:
    """Rank one of the three equal scores among 5, 3, 3, 3, 1, by each rule for ties."""
    greater, equal = metric.greater_equal([5, 3, 3, 3, 1], 2)
    return {rule: float(metric.rank(greater, equal, rule)) for rule in get_args(metric.TieRule)}


def _probabilities(p_truth: npt.ArrayLike, vocabulary: int) -> Reals:
    p = np.atleast_1d(np.asarray(p_truth, dtype=np.float64))
    if vocabulary < 2 or not ((p > 0) & (p < 1)).all():
        raise ParameterError(
            "probabilities must lie between 0 and 1, and a vocabulary hold two tokens", "p_truth, vocabulary", None
        )
    return p


def figure_1() -> dict[str, Any]:
    """Redraw the paper's figure 1: bars of probability, the most probable first."""
    rows = [(name, *bar, i == 0) for name, ps in FIGURE_1.items() for i, bar in enumerate(zip(CITIES, ps, strict=True))]
    tokens = pd.DataFrame(rows, columns=["panel", "token", "probability", "truth"])

    def draw(ax: Axes, panel: str) -> None:
        bars = tokens[tokens["panel"] == panel].sort_values("probability", ascending=False, kind="stable")
        place = np.arange(1, len(bars) + 1)
        colours = [TRUTH if truth else OTHER for truth in bars["truth"]]
        ax.barh(place, bars["probability"], color=colours, height=0.7)
        for y, width, truth in zip(place, bars["probability"], bars["truth"], strict=True):
            note = f"{width:.2f}" + (f"  correct, rank {y}" if truth else "")
            weight = "bold" if truth else "normal"
            ax.annotate(note, (width, y), (4, 0), textcoords="offset points", va="center", fontweight=weight)
        ax.set_yticks(place, [str(token) for token in bars["token"]])
        ax.set_ylim(len(bars) + 0.6, 0.4)
        ax.set_xlim(0, tokens["probability"].max() * 2.4)
        ax.grid(False, axis="y")
        ax.set_xlabel("probability")
        ax.set_title(panel)
        ax.spines.left.set_visible(False)
        ax.tick_params(axis="y", length=0)

    return {
        "figure": Panels(list(FIGURE_1), draw, size=(3.6, 2.2), columns=len(FIGURE_1)),
        "alt": "Bars of five probabilities, twice; the correct token has 0.28 in both, first rank 3, then rank 1",
        "data": tokens,
    }


def equal_cross_entropy(seed: int, vocabulary: int, rule: metric.TieRule) -> dict[str, Any]:
    """Build two models of one cross-entropy by `build_even` and `build_crowded`, of p evenly from 0.02 to 0.98.

    rbp1.even, rbp1.crowded; cross_entropy (nats) and the difference of the two; tokens; curves: line, k, rbp.
    """
    p, ks = np.random.default_rng(seed).uniform(0.02, 0.98, 1000), np.array([1, 2, 3, 5, 7, 10, 15, 20])
    built = {"even": build_even(p, max(vocabulary, 100)), "crowded": build_crowded(p, max(vocabulary, 100))}
    ranks = {name: ranks_of(probabilities, np.zeros(p.size, dtype=int), rule) for name, probabilities in built.items()}
    first, second = (metric.cross_entropy(probabilities[:, 0]) for probabilities in built.values())
    rows = [pd.DataFrame({"line": name, "k": ks, "rbp": metric.rbp(rank, ks)}) for name, rank in ranks.items()]
    shares = {f"rbp1.{name}": float(metric.rbp(rank, 1)) for name, rank in ranks.items()}
    return shares | {"cross_entropy": first, "difference": first - second, "tokens": p.size, "curves": pd.concat(rows)}


def by_temperature(
    scores: Reals, truth: npt.NDArray[np.int64], hottest: float, ks: Sequence[int], rule: metric.TieRule
) -> dict[str, Any]:
    """Compute RBP_k and cross-entropy at nine temperatures from 1/hottest to `hottest`.

    cross_entropy.lowest (nats); curves: line, T, rbp, cross_entropy.
    """
    temperatures = np.geomspace(1 / hottest, hottest, 9)
    entropy = {t: metric.cross_entropy(p_truth(scores, truth, t)) for t in temperatures}
    heated = {t: ranks_of(scores / t, truth, rule) for t in temperatures}
    rows = [(f"k = {k}", t, metric.rbp(r, k), np.nan) for k in dict.fromkeys(ks) for t, r in heated.items()]
    rows += [(" ", t, np.nan, nats) for t, nats in entropy.items()]
    table = pd.DataFrame(rows, columns=["line", "T", "rbp", "cross_entropy"])
    return {"cross_entropy.lowest": min(entropy.values()), "curves": table}


def independence_figure(curves_of_k: pd.DataFrame, by_t: pd.DataFrame) -> dict[str, Any]:
    """Plot RBP_k of two models of one cross-entropy, and the cross-entropy of one ranking at several temperatures.

    curves_of_k: columns line, k, rbp, of so many tokens; by_t: columns T, cross_entropy, line and rbp.
    """
    first, second = "One cross-entropy, two RBPₖ", "One RBPₖ, many cross-entropies"

    def draw(ax: Axes, key: str) -> None:
        if key == first:
            for (line, points), marker in zip(curves_of_k.groupby("line"), "os", strict=False):
                ax.plot(points["k"], points["rbp"], marker=marker, color=OTHER, mew=0)
                last = points.iloc[len(points) // 3]
                ax.annotate(str(line), (last["k"], last["rbp"]), (6, -12), textcoords="offset points")
            ax.set_ylim(top=1.03)
            ax.set_xlabel("threshold k")
            ax.set_ylabel(rbp_label())
        else:
            entropy = by_t.dropna(subset="cross_entropy")
            ax.plot(entropy["T"], entropy["cross_entropy"], marker="o", color=OTHER, mew=0)
            shares = by_t.dropna(subset="rbp").groupby("line", sort=False)["rbp"].first()
            note = "at every T:\n" + "\n".join(f"RBPₖ = {share:.2f} for {line}" for line, share in shares.items())
            ax.text(0.5, 0.97, note, transform=ax.transAxes, ha="center", va="top")
            ax.set_xlabel("temperature T")
            ax.set_ylabel(LABELS["cross_entropy"])
        log_axis(ax, "x")
        ax.set_title(key)

    return {
        "figure": Panels([first, second], draw, size=(4.6, 3.0)),
        "alt": "Left: RBP against k, at 1 for the even model and rising below it for the crowded model. Right: "
        "cross-entropy has a minimum near temperature 1, while RBP stays the same",
        "data": pd.concat([curves_of_k.assign(panel=first), by_t.assign(panel=second)], ignore_index=True),
    }
