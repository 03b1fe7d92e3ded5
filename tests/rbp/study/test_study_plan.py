"""A plan's numbers, against formulas written out by hand and against what real stores hold."""

import json
import re

import pytest
from commands import here
from test_study_file import MODEL, read

from companion.project import LADDER, ROOT
from rbp.extract.protocol import protocol
from rbp.study.plan import job_memory, make_plan, model_size, most_tokens, plan_lines

S, V, D = 1_189_888, 50_304, 128  # of Pythia-14M


def test_sizes_come_from_the_published_table_and_from_configurations():
    size = model_size("EleutherAI/pythia-14m", None)
    assert (size.non_embedding, size.head, size.total) == (S, V * D, S + 2 * V * D)
    records = json.loads((LADDER / "families.json").read_text())
    record = next(record for record in records if record["name"] == "neox-10k-at-8m")
    assert model_size(str(MODEL), MODEL).non_embedding == record["size"]
    assert model_size("a/b", None) is None


def test_operations_and_memory_by_hand(tmp_path):
    file = 'models = ["EleutherAI/pythia-14m"]\ncorpora = ["wikipedia"]\ntokens = 1000\n'
    (cost,) = make_plan(read(tmp_path, file)).itertuples()
    assert (cost.tokens, cost.operations) == (1000, 1000 * 2 * (S + V * D))
    # half of a window is context: the body reads each token twice, the head ranks it once
    (cost,) = make_plan(read(tmp_path, file + '[protocol]\nname = "windows"\nlength = 256\n')).itertuples()
    assert cost.operations == 1000 * 2 * (2 * S + V * D)
    (cost,) = make_plan(read(tmp_path, file + 'device = "cuda"\ndtype = "bfloat16"')).itertuples()
    assert cost.memory == 2 * (S + 2 * V * D) + 2 * 32 * 512 * 12 * D + 4 * 512 * V + 1e9
    study = read(tmp_path, file)
    (cell,) = study.cells.values()
    assert job_memory(study, cell) == -int(-(4 * (S + 2 * V * D) + 4 * 512 * 12 * D + 4 * 512 * V + 1.2e9) // 1e6)


@pytest.mark.parametrize(
    ("corpus", "chosen", "tokens"),
    [
        ("wikipedia", protocol("authors"), 1000 * 511),
        ("humaneval", protocol("authors"), 164 * 511),
        ("humaneval", protocol("authors", tokens=5000), 5000),
        ("auslegal", protocol("authors", documents=10, length=128), 1270),
        ("wikipedia", protocol("windows"), None),  # of whole documents the corpus alone decides
    ],
)
def test_most_tokens_of_a_protocol(corpus, chosen, tokens):
    assert most_tokens(corpus, chosen) == tokens


def test_the_ladders_study_is_planned_as_it_was_measured(tmp_path):
    text = (ROOT / "studies" / "ladder.toml").read_text().replace("../data", str(ROOT / "data"))
    costs = make_plan(read(tmp_path, re.sub(r"corpora = .*", 'corpora = ["ladder/humaneval"]', text)))
    stores = [json.loads(path.read_text()) for path in LADDER.glob("families-ranks/neox/*-humaneval-*/manifest.json")]
    measured = {one["about"]["model"]: one["tokens"] for one in stores}
    planned = {cost.model: cost.tokens for cost in costs.itertuples()}
    assert planned == measured


def test_what_is_unknown_is_a_question_mark(tmp_path):
    study = read(tmp_path, 'models = ["a/b", "EleutherAI/pythia-14m"]\ncorpora = ["auslegal"]\n')
    printed = here("study", "plan", str(study.path), "--tflops", "1", root=tmp_path)
    assert printed.returncode == 0
    lines = plan_lines(study, make_plan(study), rate=1e12)
    assert all(line in printed.stdout for line in lines)
    assert lines[4].split() == ["a/b", "?", "511,000", "?", "?", "?"]
    flops = 511_000 * 2 * (S + V * D)
    assert lines[5].split()[3:] == [f"{flops:.2e}", "1.4", f"{flops / 3.6e15:.2f}"]
    assert lines[6].split() == ["in", "all", "1,022,000", "?", "?"]
