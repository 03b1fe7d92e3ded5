"""Texts with a prompt, special tokens and first tokens: what is scored, against a plain loop over transformers."""

import json

import pandas as pd
import pytest
import torch
from commands import here
from tiny import make_tokenizer, random_model, save_model

from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import extract
from rbp.measurements.ranked import Ranked
from rbp.models.load import Loaded
from rbp.store import open_store
from rbp.texts.corpora import given_corpus, open_corpus
from rbp.texts.protocol import plan_rows, protocol

PAIRS = [
    ("the rank of a", " token among all scores."),
    ("the law of data ", "grows as models grow"),  # its first token has the space before it
    ("models\n", "fall"),  # the line's end is a token of the prompt
    ("", "all of a<|end|> token"),
    ("the to", "ken of a law"),  # a token straddles the boundary
    ("the rank", ""),
    ("日本", "語 🙂 of data"),  # characters of several tokens
    ("a<|end|> the", " rank<|end|>"),
]
ROWS = [{"prompt": prompt, "completion": completion} for prompt, completion in PAIRS]


def by_hand(model, tokenizer, prompt, completion, *, special=False, first=False):
    """Position, token, greater, equal and −ln p of what is scored, a token at a time.

    Whose a token is, is asked by decoding all tokens before it: its characters begin where those end.
    """
    text = prompt + completion
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    front = [0] if first else []
    apart = set() if special else {*tokenizer.all_special_ids}
    scored = []
    for place, token in enumerate(ids):
        start = len(tokenizer.decode(ids[:place]).encode().rstrip("\ufffd".encode()).decode())
        end = len(tokenizer.decode(ids[: place + 1]))
        if (prompt and (end <= len(prompt) or text[start : len(prompt)].strip())) or token in apart:
            continue
        if place == 0 and not first:
            continue
        if place and ids[place - 1] in apart:
            continue
        with torch.no_grad():
            logits = model(torch.tensor([[*front, *ids[:place]]])).logits[0, -1]
        own = logits[token]
        nll = float(logits.logsumexp(0) - own)
        scored.append((place, token, int((logits > own).sum()), int((logits == own).sum()), nll))
    return scored


@pytest.fixture(scope="module")
def model():
    return random_model("gpt2")


@pytest.mark.long
@pytest.mark.parametrize("score", [(), ("special", "first")])
def test_only_the_completion_is_ranked(model, tokenizer, score, tmp_path):
    """By a model in memory, which a start token precedes where the first one is scored."""
    expected = [(d, *row) for d, pair in enumerate(PAIRS)
                for row in by_hand(model, tokenizer, *pair, **dict.fromkeys(score, True))]  # fmt: skip
    windows = protocol("windows", length=256, score=score, bos="always" if "first" in score else "auto")
    (folder,) = extract([Loaded("m", model, tokenizer)], [given_corpus(ROWS, "c")], windows, tmp_path)
    ranked = Ranked(open_store(folder))
    table = ranked.to_pandas()[["document", "position", "token", "greater", "equal", "nll"]]
    assert table.iloc[:, :5].to_numpy().tolist() == [[*map(int, row[:5])] for row in expected]
    assert table["nll"].to_numpy() == pytest.approx([row[5] for row in expected], abs=1e-4)


def test_long_prompts_and_budgets(tokenizer):
    """The windows of a prompt alone are not read, and a budget counts what is scored."""
    rows = [{"prompt": "the law of data " * 200, "completion": "grows as models grow"}, ROWS[0]]
    corpus, chosen = given_corpus(rows, "c"), protocol("windows", length=32)
    full_plan = plan_rows(corpus, tokenizer, chosen)
    assert {row.document for row in full_plan.rows} == {0, 1}
    assert full_plan.tokens_read < 100
    for budget in range(1, full_plan.tokens + 1):
        plan = plan_rows(corpus, tokenizer, protocol("windows", length=32, tokens=budget))
        assert plan.tokens == budget


def _write(folder, kind, rows):
    path = folder / f"mine.{kind}"
    if kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(("kind", "partly"), [("jsonl", False), ("parquet", True)])
def test_prompts_are_read_from_files(tmp_path, kind, partly):
    corpus = open_corpus(str(_write(tmp_path, kind, ROWS)), partly=partly)
    assert [corpus.documents[i] for i in range(len(ROWS))] == [prompt + completion for prompt, completion in PAIRS]
    assert [corpus.prompt(i) for i in range(len(ROWS))] == [prompt for prompt, _ in PAIRS]
    named = [{"q": row["prompt"], "text": "x", "completion": row["completion"]} for row in ROWS]
    other = open_corpus(str(_write(tmp_path, kind, named)), partly=partly, prompt="q")
    assert ([*other.documents], [*other.starts]) == ([*corpus.documents], [*corpus.starts])
    assert [*open_corpus(str(tmp_path / f"mine.{kind}")).documents] == ["x"] * len(ROWS)  # of a text it is that


@pytest.mark.parametrize(
    ("rows", "chosen", "words"),
    [
        ([ROWS[0], {"text": "a"}], {}, "no field prompt"),
        ([{"prompt": [{"role": "user"}], "completion": "a"}], {}, "chat template"),
        (ROWS, {"score": ["first"]}, "--bos always"),
        (ROWS, {"score": ["end"]}, "score cannot be 'end'"),
        (ROWS, {"score": ["special"], "special": "text"}, "Leave one of them out"),
    ],
)
def test_what_cannot_be_is_refused(tokenizer, rows, chosen, words):
    with pytest.raises((DataError, ParameterError), match=words):
        plan_rows(given_corpus(rows, "c"), tokenizer, protocol("windows", **chosen))


@pytest.mark.long
def test_on_the_command_line_and_checked_again(tmp_path):
    """`rbp ranks check` finds the fields that were asked for."""
    folder = save_model(tmp_path / "model", "llama", make_tokenizer("<|end|> $A"))
    corpus = _write(tmp_path, "jsonl", [{"q": row["prompt"], "a": row["completion"]} for row in ROWS])
    options = ["--model", str(folder), "--corpus", str(corpus), "--field", "a", "--prompt", "q"]
    here("extract", *options, "--score", "special", "--score", "first", "--out", str(tmp_path / "all"))
    (store,) = map(open_store, (tmp_path / "all").iterdir())
    tokenizer, model = make_tokenizer(), random_model("llama")
    expected = [row for pair in PAIRS for row in by_hand(model, tokenizer, *pair, special=True, first=True)]
    assert store.ranks()["greater"].tolist() == [row[2] for row in expected]
    check = ["--model", str(folder), "--corpus", str(corpus), "--share", "1"]
    assert here("ranks", "check", str(store.folder), *check).returncode == 0
