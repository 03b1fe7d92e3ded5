"""Ranks as lm-evaluation-harness logs samples: the fields are the harness's, and the sums those of the store."""

import json
import math
from hashlib import sha256

import numpy as np
import pytest
from ranks.test_reading import invoke
from toy_stores import make_store

from rbp.core.errors import ParameterError
from rbp.ranks.metric import rbp

GREATER, LENGTHS = [0, 4, 20, 0, 9, 10, 0], [3, 1, 3]


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "store", GREATER, LENGTHS, nll=0.5)


def test_the_lines_are_those_of_the_documents(store):
    lines = [json.loads(line) for line in invoke("ranks", "export", store.folder, "--format", "lm-eval").splitlines()]
    assert [line["doc_id"] for line in lines] == [0, 1, 2]
    assert [line["resps"] for line in lines] == [[["-1.5"]], [["-0.5"]], [["-1.5"]]]
    assert [line["filtered_resps"] for line in lines] == [["-1.5"], ["-0.5"], ["-1.5"]]
    assert lines[0]["doc"]["token_ids"] == [0, 1, 2]
    assert lines[2]["doc"]["positions"] == [1, 2, 3]
    for line in lines:
        assert line["filter"] == "none"
        assert line["doc_hash"] == sha256(json.dumps(line["doc"], indent=2, ensure_ascii=False).encode()).hexdigest()
        assert line["metrics"] == ["token_perplexity", "rbp_1", "rbp_10", "rbp_100"]
        assert not {"target", "arguments", "prompt_hash", "target_hash"} & line.keys()  # made from a text


def test_the_aggregates_are_the_measures(store, tmp_path):
    invoke("ranks", "export", store.folder, "--format", "lm-eval", "-k", "10,1", "--out", tmp_path / "s.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines()]
    for k in (1, 10):
        hits, tokens = np.sum([line[f"rbp_{k}"] for line in lines], axis=0)
        assert hits / tokens == rbp(np.asarray(GREATER) + 1, k)
    gained, weight = np.sum([line["token_perplexity"] for line in lines], axis=0)
    assert math.exp(-gained / weight) == pytest.approx(math.exp(0.5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "csv"], "unknown format"),
        (["--format", "lm-eval", "--out", "x.csv"], "cannot write"),
        (["--format", "lm-eval", "-k", "0"], "no thresholds"),
    ],
)
def test_what_cannot_be_written_is_refused(store, arguments, message):
    with pytest.raises(ParameterError, match=message):
        invoke("ranks", "export", store.folder, *arguments)
