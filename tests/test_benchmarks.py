"""What the benchmarks of quantized files and of memory count, and that the README says what they measured."""

import json
from math import log

import pandas as pd
import pytest

from bench.memory import one_document
from bench.quantized import between, folder_bytes
from companion.project import ROOT

RESULTS, README = ROOT / "bench" / "results", (ROOT / "README.md").read_text()


def test_two_evaluations_are_compared_as_by_hand():
    """Probabilities 1/2, 1/4, 1/8 become 1/4, 1/2, 1/8; of the three likeliest tokens one stays."""
    before = pd.DataFrame({"nll": [log(2), log(4), log(8)], "top": [3, 5, 7]})
    after = pd.DataFrame({"nll": [log(4), log(2), log(8)], "top": [3, 6, 8]})
    expected = {"perplexity": 4, "change": 0, "same_top": 1 / 3, "mean_dp": 0, "rms_dp": (2 / 3) ** 0.5 / 4}
    assert between(before, after) == pytest.approx(expected, abs=1e-12)


def test_bytes_of_a_folder_and_documents_joined(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a").write_bytes(b"12345")
    (tmp_path / "b").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert folder_bytes(tmp_path) == 37
    one_document(tmp_path / "b")
    assert json.loads((tmp_path / "b").read_text()) == {"text": "one two"}
