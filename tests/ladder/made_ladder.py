"""A very small ladder on made-up text: the recipe, the corpora, and a family trained from them."""

import gzip
import json
import random
from pathlib import Path

RECIPE = """
[text]
tokens = {tokens}
context = 32
vocabulary = 280
characters = 20_000
passage = 12
seed = 0

[training]
batch = 4
rate = 0.01
width = 16
warmup = 0.1
final = 0.1
betas = [0.9, 0.95]
decay = 0.1
clip = 1.0

[[sources]]
name = "tales"
file = "tales.jsonl.gz"
held_out = 3

[[sources]]
name = "sums"
file = "sums.jsonl.gz"

[[domains]]
name = "questions"
file = "questions.jsonl.gz"
fields = ["question", "answer"]
documents = 30

[[domains]]
name = "tales"
source = "tales"
documents = 2

[[rungs]]
name = "small"
layers = 1
width = 8
heads = 1
seeds = [0, 1]

[[rungs]]
name = "large"
layers = 1
width = 16
heads = 2
seeds = [0]
"""
WORDS = ["the", "a", "rank", "of", "token", "grows", "law", "and", "so", "was", "it", "–", "“says”", "naïve", "漢字"]


def tale(seed: int, words: int = 300) -> str:
    """Words at random: two tales share no long passage."""
    rng = random.Random(seed)  # noqa: S311
    return " ".join(rng.choice(WORDS) + rng.choice(["", "", ",", ".\n"]) for _ in range(words))


def write_corpus(path: Path, rows: list[dict[str, str]]) -> None:
    text = "".join(json.dumps({"id": f"{path.name.split('.')[0]}/{i}", **row}) + "\n" for i, row in enumerate(rows))
    path.write_bytes(gzip.compress(text.encode()))


def write_ladder(folder: Path, steps: int = 40) -> tuple[Path, Path]:
    """A recipe and the folder of its corpora; one sum quotes a question."""
    texts = folder / "texts"
    texts.mkdir(parents=True)
    questions = [{"question": tale(1000 + i, 40), "answer": tale(2000 + i, 3)} for i in range(40)]
    sums = [tale(500 + i) for i in range(max(12, steps // 14))]
    sums[3] += " " + questions[35]["question"]
    write_corpus(texts / "tales.jsonl.gz", [{"text": tale(i)} for i in range(max(12, steps // 14))])
    write_corpus(texts / "sums.jsonl.gz", [{"text": text} for text in sums])
    write_corpus(texts / "questions.jsonl.gz", questions)
    config = folder / "small.toml"
    config.write_text(RECIPE.format(tokens=steps * 4 * 32))
    return config, texts


def quiet(line: str) -> None:
    """What a job tells, to nobody."""
