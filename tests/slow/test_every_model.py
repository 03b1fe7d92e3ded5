"""Every architecture, and a real model.

The survey of architectures, where it is whole, becomes the table that the book shows (data/faults/architectures.csv).
"""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers
from survey import FAMILIES, VARIANTS, survey

from companion.chapters.appendix.ranking import FOLDER
from companion.project import ROOT
from rbp.choices import Settings
from rbp.extract.extraction import extract, quiet
from rbp.io import write_file
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import open_store
from rbp.texts.corpora import open_corpus
from rbp.texts.protocol import protocol

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SMOLLM2 = ROOT / "runs" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_architectures(tmp_path):
    models = [*((name, "", {}) for name in FAMILIES), *VARIANTS]
    found = [survey(family, tmp_path / str(i), variant, **own) for i, (family, variant, own) in enumerate(models)]
    table = pd.DataFrame(found)
    assert table[table["outcome"] == "wrong"].empty, table[table["outcome"] == "wrong"].to_string()
    assert (table["outcome"] == "exact").sum() >= 60
    with_version = table.assign(transformers=transformers.__version__)
    write_file(FOLDER / "architectures.csv", with_version.to_csv(index=False))


@pytest.mark.skipif(not SMOLLM2.exists(), reason="make smollm2 fetches the file")
def test_a_real_model_ranks_a_text_as_a_plain_script_does(tmp_path):
    """All of HumanEval by SmolLM2's GGUF file, and by a script that reads its dequantized weights."""
    files, text = find_model(str(SMOLLM2)), open_corpus("ladder/humaneval")
    with quiet():
        load_tokenizer(files).save_pretrained(tmp_path / "model")
        load_model(files, "float32", torch.device("cpu")).model.save_pretrained(tmp_path / "model")
    lines = "".join(json.dumps({"text": document}) + "\n" for document in text.documents)
    (tmp_path / "text.jsonl").write_text(lines, encoding="utf-8")
    plain = [sys.executable, "-m", "bench.plain", str(tmp_path / "model"), str(tmp_path / "text.jsonl"), str(10**9)]
    shares = list(map(float, subprocess.check_output(plain, cwd=ROOT, text=True).split()))
    windows = protocol("windows", length=512, context=1)
    (store,) = extract([files], [text], windows, tmp_path / "out", Settings(device="cpu"))
    greater = open_store(Path(store)).ranks()["greater"].to_numpy()
    # some ranks differ by rounding
    assert [(greater < k).mean() for k in (1, 10)] == pytest.approx(shares, abs=1e-4)
