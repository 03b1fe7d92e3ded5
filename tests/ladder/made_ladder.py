"""Very small ladders on made-up text: the recipes, the corpora, and families trained from them."""

import gzip
import json
import random

from ladder.making import Making
from ladder.recipe import read_ladders
from ladder.workspace import Workspace

RECIPE = """
[text]
tokens = {tokens}
context = 32
vocabulary = 280
characters = 20_000
passage = 12
seed = 0

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
documents = 12

[[domains]]
name = "tales"
source = "tales"
documents = 2
"""
LADDERS = """
text = "small.toml"
unseen = 8
repeated = 1

[training]
budgets = [640, 1_280, 2_560]
batch = 2
warmup = 256
cooldown = 0.25
width = 16
fall = 1.0
betas = [0.9, 0.95]
decay = 0.1
clip = 1.0

[widths]
narrow = 8
wide = 16

[[families]]
name = "neox"
architecture = "neox"
layers = 1
head = 8
rate = 0.01
rungs = ["narrow", "wide"]

[[families]]
name = "lstm"
architecture = "lstm"
layers = 1
rate = 0.01
rungs = ["narrow"]

[repeats]
1 = { weights = 1, order = 0 }
2 = { weights = 0, order = 1 }
"""
WORDS = ["the", "a", "rank", "of", "token", "grows", "law", "and", "so", "was", "it", "–", "“says”", "naïve", "漢字"]


def tale(seed, words=300):
    """Words at random: two tales share no long passage."""
    rng = random.Random(seed)  # noqa: S311
    return " ".join(rng.choice(WORDS) + rng.choice(["", "", ",", ".\n"]) for _ in range(words))


def write_corpus(path, rows):
    text = "".join(json.dumps({"id": f"{path.name.split('.')[0]}/{i}", **row}) + "\n" for i, row in enumerate(rows))
    path.write_bytes(gzip.compress(text.encode()))


def write_ladder(folder, steps=40):
    """A recipe of text, with families beside it, and the folder of its corpora; one sum quotes a question."""
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
    (folder / "ladders.toml").write_text(LADDERS)
    return config, texts


def write_making(folder):
    """Three families whose text is made, and nothing is trained."""
    _, texts = write_ladder(folder, 100)
    making = Making(*read_ladders(folder / "ladders.toml"), Workspace(folder / "out"))
    making.prepare(texts)
    return making


def quiet(line):
    """What a job tells, to nobody."""
