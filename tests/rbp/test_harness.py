"""Ranks in lm-evaluation-harness, beside a plain loop over logits."""

import json
import math
import re
import shlex
from itertools import chain
from pathlib import Path

import pytest
import torch
import transformers
from checkout import ROOT
from commands import here, refused
from lm_eval.tasks import TaskManager
from tiny import random_model, save_model

from rbp import harness
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer
from rbp.store import open_store

TASKS = ROOT / "tests/rbp/lm_eval_tasks"
QUESTIONS = [json.loads(line) for line in (TASKS / "choices.jsonl").read_text().splitlines()]
TEXTS = [json.loads(line)["text"] for line in (TASKS / "texts.jsonl").read_text().splitlines()]
GUIDE = dict(re.findall(r"^rbp (lm-eval|compare) (.*)$", (ROOT / "docs/guide.md").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two tiny models of one tokenizer: GPT-2 has no place for a token beyond its 256."""
    folder = tmp_path_factory.mktemp("models")
    paths = [save_model(folder / name, "gpt2") for name in ("one", "other")]
    other = random_model("gpt2")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    other.save_pretrained(paths[1])
    return paths


@pytest.fixture
def in_tasks(monkeypatch):
    monkeypatch.chdir(TASKS)  # the tasks name their files as seen from there
    monkeypatch.setattr(TaskManager.__init__, "__defaults__", (None, None, False, None))  # lm-eval's own are thousands


def evaluate(model, out):
    """The results of the guide's command on the tasks here, with stores in `out`."""
    line = GUIDE["lm-eval"].replace("arc_easy,wikitext", "rbp_choices,rbp_texts")
    arguments = shlex.split(line.replace("runs", str(out)).replace("MODEL", str(model)))
    files = ("--include_path", ".", "--output_path", str(out / model.name))
    done = here("lm-eval", *arguments, "--k", "1,20,100", *files, "--device", "cpu")
    assert done.returncode == 0, done
    return json.loads(next((out / model.name).rglob("results*.json")).read_text())["results"]


def plain_ranks(model, context, continuation):
    """Ranks of the tokens of `continuation` after `context`, and their −ln p, from all logits."""
    ids = torch.tensor([context + continuation])
    with torch.no_grad():
        logits = model(ids[:, :-1]).logits[0, len(context) - 1 :]
    truth = logits.gather(1, ids[0, len(context) :, None])
    return (logits >= truth).sum(1).tolist(), (logits.logsumexp(1) - truth[:, 0]).tolist()


def plainly(model, tokenizer):
    """Ranks and −ln p of the correct choices, and of the texts in windows of as many tokens as the model reads."""
    choices, texts, most = [], [], model.config.max_position_embeddings
    for question in QUESTIONS:
        context = tokenizer.encode(question["question"])
        both = tokenizer.encode(f"{question['question']} {question['choices'][question['gold']]}")
        choices.append(plain_ranks(model, context, both[len(context) :]))
    for text in TEXTS:
        ids = [tokenizer.bos_token_id, *tokenizer.encode(text)]
        for start in range(1, len(ids), most):
            end = min(start + most, len(ids))  # a window is filled from the left
            first = start if start == 1 else max(1, end - most)
            texts.append(plain_ranks(model, ids[first - 1 : start], ids[start:end]))
    return {"rbp_choices": choices, "rbp_texts": texts}


@pytest.mark.long
@pytest.mark.usefixtures("in_tasks")
def test_results_are_those_of_a_plain_loop_and_stores_are_compared(models, tmp_path):
    both = [evaluate(model, tmp_path) for model in models]
    tokenizer = load_tokenizer(find_model(str(models[0])))
    plain = plainly(transformers.AutoModelForCausalLM.from_pretrained(models[0]), tokenizer)
    for task, answers in plain.items():
        ranks, nll = (list(chain.from_iterable(answer[i] for answer in answers)) for i in (0, 1))
        assert both[0][task]["rbp_tokens,none"] == len(ranks)
        assert both[0][task]["cross_entropy,none"] == pytest.approx(math.fsum(nll) / len(nll), rel=1e-5)
        for k in (1, 20, 100):
            share = sum(rank <= k for rank in ranks) / len(ranks)
            assert both[0][task][f"rbp_{k},none"] == pytest.approx(share, abs=1e-12)
    pattern = Path(GUIDE["compare"]).relative_to("runs")
    stores = sorted(tmp_path.glob(str(pattern).replace("wikitext", "rbp_texts")))
    for store, results in zip(map(open_store, stores), both, strict=True):
        ranks = store.ranks()
        assert ranks["nll"].mean() == pytest.approx(results["rbp_texts"]["cross_entropy,none"], rel=1e-5)
        for document, rows in ranks.groupby("document"):  # positions go on from one window to the next
            ids = tokenizer.encode(TEXTS[document])
            assert rows["position"].tolist() == list(range(1, len(ids) + 1))
            assert rows["token"].tolist() == ids
    assert "tokens of 4 documents" in here("compare", *map(str, stores)).stdout
    (other,) = tmp_path.glob("lm-eval/other-rbp_choices-*")
    refused(here("compare", str(stores[0]), str(other)), "texts differ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--model": "hf"}, "hf gives no ranks"),
        ({"--use_cache": "cache"}, "--use_cache"),
        ({"--model_args": "pretrained=there,peft=adapter"}, "unknown: peft"),
        ({"--model_args": "dtype=float32"}, "no model is given"),
        ({"--tasks": "nothing"}, "Tasks not found: nothing"),
        ({"--k": "0"}, "--k"),
    ],
)
@pytest.mark.usefixtures("in_tasks")
def test_bad_arguments_are_refused_by_name(models, change, words):
    given = {"--model": "rbp", "--model_args": f"pretrained={models[0]}", "--tasks": "rbp_choices"}
    given |= {"--include_path": "."} | change
    done = here("lm-eval", *chain.from_iterable(given.items()))
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert words in done.stderr


def total(*ranks):
    """An answer whose tokens have these ranks."""
    count = len(ranks)
    columns = [range(3, 3 + count), range(count), [r - 1 for r in ranks], [1] * count, [1.0] * count, [0] * count]
    return harness.total_of(harness.Tokens(*map(harness.np.array, columns)))


def sample(target, *answers, contexts=None, choices=("Yes", "No", "Maybe"), **more):
    contexts = contexts or ["Is it?"] * len(answers)
    arguments = list(zip(contexts, (f" {choice}" for choice in choices), strict=False))
    responses = [[(answer, False)] for answer in answers]
    return {"doc_id": 0, "target": target, "arguments": arguments, "resps": responses, **more}


def test_only_the_correct_choice_counts():
    answers = total(1), total(2, 2), total(3)
    for target in (1, "No", "No "):
        assert harness.answer_of(sample(target, *answers)).greater.tolist() == [1, 1]
    for target in (3, -1, "Perhaps", [0, 1], None):
        assert harness.answer_of(sample(target, *answers)) is None
    # the question varies, the answer does not; and an answer that is there twice
    assert harness.answer_of(sample(1, *answers, contexts=["A", "B", "C"], choices=["No"] * 3)) is None
    assert harness.answer_of(sample("No", *answers, choices=["No", "Yes", "No"])) is None


def test_a_document_counts_once_whatever_filters_its_answers_pass():
    first, second = sample(0, total(1, 5), filter="none"), sample(0, total(1, 5), filter="strict")
    other = {**sample(0, total(9)), "doc_id": 4}
    unknown = {**sample(None, total(1), total(2)), "doc_id": 2}
    results = harness.summarize(harness.answers_of([other, first, second, unknown]), [1, 5])
    assert results["rbp_tokens,none"] == 3
    assert results["rbp_1,none"] == pytest.approx(1 / 3)
    assert results["rbp_5,none"] == pytest.approx(2 / 3)
    # leaving out either of two documents gives 1/2 and 0: their jackknife variance is (1/2)·(1/4)²·2
    assert results["rbp_1_stderr,none"] == pytest.approx((0.5 * 2 * 0.25**2) ** 0.5)
