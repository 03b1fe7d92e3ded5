"""Ranks in lm-evaluation-harness, beside lm-eval's own type `hf` and a plain loop over logits."""

import json
import math
import re
import shlex
from itertools import chain
from pathlib import Path

import lm_eval
import pytest
import torch
import transformers
from checkout import ROOT
from commands import here, refused
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from tiny import random_model, save_model

from rbp import harness
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import open_store

TASKS = ROOT / "tests/rbp/lm_eval_tasks"
QUESTIONS = [json.loads(line) for line in (TASKS / "choices.jsonl").read_text().splitlines()]
TEXTS = [json.loads(line)["text"] for line in (TASKS / "texts.jsonl").read_text().splitlines()]
GUIDE = dict(re.findall(r"^rbp (lm-eval|compare) (.*)$", (ROOT / "docs/guide.md").read_text(), re.MULTILINE))
SMOLLM2 = ROOT / "runs/models/SmolLM2-135M-Instruct.Q4_1.gguf"


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


@pytest.fixture(scope="module")
def in_tasks():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(TASKS)  # the tasks name their files as seen from there
        patch.setattr(TaskManager.__init__, "__defaults__", (None, None, False, None))  # lm-eval's own are thousands
        yield


@pytest.fixture(scope="module")
def evaluated(models, in_tasks, tmp_path_factory):
    """The folder of both models' stores; for each its results, and what the command printed."""
    folder = tmp_path_factory.mktemp("evaluated")
    return folder, [evaluate(model, folder, "--k", "1,20,100") for model in models]


def in_guide(command, **here):
    """The arguments of a command in the guide, with the tasks here and other names in place of the guide's."""
    line = GUIDE[command].replace("arc_easy,wikitext", "rbp_choices,rbp_texts").replace("wikitext", "rbp_texts")
    for name, value in here.items():
        line = line.replace(name, str(value))
    return shlex.split(line)


def evaluate(model, out, *more):
    """The guide's command on the tasks here, with stores in `out`; its results, and what it printed."""
    results, arguments = out / "results" / model.stem, in_guide("lm-eval", runs=out, MODEL=model)
    files = ("--include_path", ".", "--output_path", str(results))
    done = here("lm-eval", *arguments, *more, *files, "--device", "cpu")
    assert done.returncode == 0, done
    return json.loads(next(results.rglob("results*.json")).read_text())["results"], done


def by_hf(**model):
    """The results of lm-eval's own type, of the same tasks."""
    manager = TaskManager(include_path=str(TASKS), include_defaults=False)
    options = {"task_manager": manager, "tasks": ["rbp_choices", "rbp_texts"], "log_samples": False}
    return lm_eval.simple_evaluate(**model, batch_size=1, **options)["results"]


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
        parts = []
        for start in range(1, len(ids), most):
            end = min(start + most, len(ids))  # a window is filled from the left
            first = start if start == 1 else max(1, end - most)
            parts.append(plain_ranks(model, ids[first - 1 : start], ids[start:end]))
        texts.append(tuple(list(chain.from_iterable(part[i] for part in parts)) for i in (0, 1)))
    return {"rbp_choices": choices, "rbp_texts": texts}


def must_equal(results, plain, ks):
    for task, documents in plain.items():
        ranks, nll = (list(chain.from_iterable(document[i] for document in documents)) for i in (0, 1))
        assert results[task]["rbp_tokens,none"] == len(ranks)
        assert results[task]["cross_entropy,none"] == pytest.approx(math.fsum(nll) / len(nll), rel=1e-5)
        for k in ks:
            assert results[task][f"rbp_{k},none"] == pytest.approx(sum(r <= k for r in ranks) / len(ranks), abs=1e-12)


@pytest.mark.long
def test_results_are_those_of_hf_and_of_a_plain_loop(models, evaluated):
    results, done = evaluated[1][0]
    assert "rbp_20" in done.stdout
    own = by_hf(model="hf", model_args={"pretrained": str(models[0]), "dtype": "float32", "device": "cpu"})
    for task, name in (("rbp_choices", "acc"), ("rbp_choices", "acc_norm"), ("rbp_texts", "bits_per_byte")):
        assert results[task][f"{name},none"] == pytest.approx(own[task][f"{name},none"], rel=1e-6)
    model = transformers.AutoModelForCausalLM.from_pretrained(models[0])
    must_equal(results, plainly(model, load_tokenizer(find_model(str(models[0])))), (1, 20, 100))


@pytest.mark.long
def test_stores_are_read_by_compare_and_law(models, evaluated, tmp_path):
    out, folder = evaluated[0], evaluated[0] / "lm-eval"
    stores = [next(folder.glob(f"{model.name}-rbp_texts-*")) for model in models]
    for store, (results, _) in zip(map(open_store, stores), evaluated[1], strict=True):
        ranks = store.ranks()
        assert ranks["nll"].mean() == pytest.approx(results["rbp_texts"]["cross_entropy,none"], rel=1e-5)
        for document, rows in ranks.groupby("document"):  # positions go on from one window to the next
            ids = load_tokenizer(find_model(str(models[0]))).encode(TEXTS[document])
            assert rows["position"].tolist() == list(range(1, len(ids) + 1))
            assert rows["token"].tolist() == ids
    (pattern,) = in_guide("compare", runs=out)
    compared = here("compare", *map(str, out.glob(str(Path(pattern).relative_to(out)))))
    assert compared.returncode == 0, compared
    assert "tokens of 4 documents" in compared.stdout
    refused(here("compare", str(stores[0]), str(next(folder.glob("other-rbp_choices-*")))), "texts differ")
    law = here("law", str(folder), "--dataset", "rbp_texts", "--k", "100", "--out", str(tmp_path / "law.html"))
    assert (tmp_path / "law.html").is_file(), law


@pytest.mark.slow
@pytest.mark.skipif(not SMOLLM2.exists(), reason="make smollm2")
def test_a_gguf_file_is_scored_as_its_weights_are(tmp_path, in_tasks):
    results, _ = evaluate(SMOLLM2, tmp_path)
    files = find_model(str(SMOLLM2))
    model, tokenizer = load_model(files, "float32", torch.device("cpu")).model, load_tokenizer(files)
    own = by_hf(model=HFLM(model, tokenizer=tokenizer))
    for task, name in (("rbp_choices", "acc"), ("rbp_choices", "acc_norm"), ("rbp_texts", "bits_per_byte")):
        assert results[task][f"{name},none"] == pytest.approx(own[task][f"{name},none"], rel=1e-5)
    assert results["rbp_choices"]["acc,none"] >= 0.75  # chance: 1/3
    must_equal(results, plainly(model, tokenizer), (1, 10, 100))


@pytest.mark.long
def test_bad_arguments_are_refused_by_name(models, tmp_path, in_tasks, monkeypatch):
    def said(*arguments, model="rbp", model_args=f"pretrained={models[0]}", task="rbp_choices"):
        command = ["--model", model, "--model_args", model_args, "--tasks", task, "--include_path", "."]
        done = here("lm-eval", *command, *arguments)
        assert done.returncode == 2, done
        assert "Traceback" not in done.stderr
        return done.stderr.splitlines()[-2:]

    assert "hf gives no ranks" in said(model="hf")[0]
    assert "--use_cache" in said("--use_cache", str(tmp_path / "cache"))[0]
    assert "unknown: peft" in said(model_args=f"pretrained={models[0]},peft=adapter")[0]
    assert "no model is given" in said(model_args="dtype=float32")[0]
    assert "unknown dtype" in said(model_args=f"pretrained={models[0]},dtype=auto")[0]
    assert "Tasks not found: nothing" in said(task="nothing")[0]
    refused(here("lm-eval", "--k", "0"), "--k")
    monkeypatch.setattr(harness, "version", lambda _: "0.5.0")
    assert "lm-eval 0.5.0 is installed" in said()[0]


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
    # mutual information asks for each choice alone, too, after all of them
    twice = sample(1, *answers, *answers, contexts=["Is it?"] * 3 + [""] * 3, choices=["Yes", "No", "Maybe"] * 2)
    assert harness.answer_of(twice).greater.tolist() == [1, 1]
    assert harness.answer_of({"resps": [["generated text"]]}) is None


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
    alone = harness.summarize(harness.answers_of([first]), [1])
    assert alone["rbp_1_stderr,none"] == "N/A"
    assert harness.answers_of([unknown]) == {}
