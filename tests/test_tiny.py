import json
import math
from pathlib import Path

import pytest
import torch

from rbp import tiny
from rbp.extraction.models import find_model, load_model, load_tokenizer

TRAIN, HELD_OUT = tiny.FOLDER / "train.jsonl", tiny.FOLDER / "heldout.jsonl"


def test_the_shipped_model_loads_is_small_and_has_learned():
    files = find_model(str(tiny.FOLDER / "model"))
    tokenizer, language = load_tokenizer(files), load_model(files, "float32", torch.device("cpu"))
    assert sum(path.stat().st_size for path in files.folder.iterdir()) < 2_000_000
    assert (len(tokenizer), language.vocabulary, language.model.config.model_type) == (1000, 1024, "gpt_neox")
    tokens = tiny.stream(tiny.read(HELD_OUT), tokenizer)[: 24 * tiny.CONTEXT]
    loss = tiny.loss_of(language.model, tokens)
    # the truth's frequency alone, and a random guess, are both well above what the model reaches
    counts = torch.bincount(tiny.stream(tiny.read(TRAIN), tokenizer), minlength=tiny.ROWS) + 1.0
    unigram = float(-(counts / counts.sum()).log()[tokens].mean())
    assert loss < unigram - 1 < math.log(tiny.ROWS)


def test_any_text_survives_the_tokenizer():
    tokenizer = load_tokenizer(find_model(str(tiny.FOLDER / "model")))
    text = "−ln RBPₖ ≤ α·S, “quoted”\n\tÑandú 漢字 🙂"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_what_is_held_out_is_not_trained_on():
    train, held_out = ([json.loads(line) for line in path.read_text().splitlines()] for path in (TRAIN, HELD_OUT))
    assert len(train) > 50
    assert len(held_out) >= 10
    assert not {each["name"] for each in train} & {each["name"] for each in held_out}
    lines = {line.strip() for each in train for line in each["text"].splitlines()}
    long = [line.strip() for each in held_out for line in each["text"].splitlines() if len(line.strip()) >= 60]
    assert sum(line in lines for line in long) <= 0.01 * len(long)  # a remedy that two modules have in common


def test_freezing_splits_by_document_and_leaves_out_the_ledger(tmp_path: Path):
    root, folder = tmp_path / "root", tmp_path / "data"
    for i in range(14):
        path = root / "src" / "rbp" / ("claims" if i == 0 else "some") / f"m{i:02d}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"x = {i}\n" * 100)
    (root / "short.md").write_text("short")
    tiny.freeze(root, folder)
    names = {
        part: [json.loads(line)["name"] for line in (folder / f"{part}.jsonl").read_text().splitlines()]
        for part in ("train", "heldout")
    }
    assert [len(names[part]) for part in names] == [11, 2]
    assert not any("claims" in name or "short" in name for part in names.values() for name in part)


def test_training_lowers_the_loss_the_same_way_each_time():
    tokens = torch.arange(5000) % 7
    losses = []
    for _ in range(2):
        torch.manual_seed(3)
        model = tiny.make_model()
        before = tiny.loss_of(model, tokens[:600])
        assert tiny.train(model, tokens, tiny.Recipe(steps=4, batch=2, warmup=1)) == 4 * 2 * tiny.CONTEXT
        losses.append(tiny.loss_of(model, tokens[:600]))
        assert losses[-1] < before - 0.5
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
