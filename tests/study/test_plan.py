"""The plan's numbers, against formulas written out by hand, and against what a real store takes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli.test_cli import here, refused

from rbp.core.errors import ParameterError
from rbp.core.paths import LADDER, ROOT
from rbp.paper.appendix import cost
from rbp.ranks.cost import gpu_memory
from rbp.ranks.extraction import Settings, extract
from rbp.ranks.protocols import protocol
from rbp.ranks.store import open_store
from rbp.study.config import ModelEntry, Study, read_study
from rbp.study.jobs import model_label
from rbp.study.plan import (
    CPU_CORE,
    STORED,
    flops_of,
    job_memory,
    make_plan,
    model_size,
    tokens_at_most,
)
from rbp.study.report import plan_json, plan_lines

PLANNED: dict[str, Any] = {"dtypes": ["float32"], "tokens": 1000, "shards": 4, "gpus": [1, 8]}
PYTHIA_14M = {"S": 1_189_888, "V": 50_304, "d": 128}


def test_a_published_models_size_is_that_of_its_weights() -> None:
    size = model_size(ModelEntry(name="EleutherAI/pythia-14m"))
    assert size is not None
    assert size.non_embedding == PYTHIA_14M["S"]
    assert size.head == PYTHIA_14M["V"] * PYTHIA_14M["d"]
    assert size.total == PYTHIA_14M["S"] + 2 * PYTHIA_14M["V"] * PYTHIA_14M["d"] == 14_067_712
    assert size.width == 128


def test_a_local_models_size_comes_from_its_configuration() -> None:
    size = model_size(ModelEntry(name=str(LADDER / "families" / "neox" / "neox-10k-at-8m")))
    assert size is not None
    records = json.loads((LADDER / "families.json").read_text())
    said = next(record for record in records if record["name"] == "neox-10k-at-8m")
    assert size.non_embedding == said["size"]
    assert (size.head, size.source) == (4096 * 16, "config.json")


def test_a_model_that_nobody_knows_has_no_size_and_no_cost(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('models = ["nobody/knows-this"]\ncorpora = ["humaneval"]')
    plan = make_plan(read_study(path))
    assert model_size(ModelEntry(name="nobody/knows-this")) is None
    assert plan.costs[0].flops is None
    assert plan.hours(8) is None
    assert "?" in "\n".join(plan_lines(plan, [1]))
    json.dumps(plan_json(plan, [1]), allow_nan=False)


def test_operations_by_hand() -> None:
    size = model_size(ModelEntry(name="EleutherAI/pythia-14m"))
    assert size is not None
    each = 2 * PYTHIA_14M["S"] + 2 * PYTHIA_14M["V"] * PYTHIA_14M["d"]
    assert flops_of(size, 1000, protocol("authors")) == 1000 * each
    # half of a window is context: the body reads each token twice, the head sees it once
    twice = 4 * PYTHIA_14M["S"] + 2 * PYTHIA_14M["V"] * PYTHIA_14M["d"]
    assert flops_of(size, 1000, protocol("windows", length=256, context=128)) == 1000 * twice


def test_gpu_memory_by_hand() -> None:
    size = model_size(ModelEntry(name="EleutherAI/pythia-12b"))
    assert size is not None
    weights = 11_846_072_320 * 4
    activations = 32 * 512 * 12 * 5120 * 4
    assert gpu_memory(size, "float32", 512) == weights + activations + 512 * 50_688 * 4 + 1e9
    assert gpu_memory(size, "bfloat16", 512) == weights / 2 + activations / 2 + 512 * 50_688 * 4 + 1e9


@pytest.mark.parametrize(
    ("corpus", "options", "tokens"),
    [
        ("wikipedia", {}, 1000 * 511),
        ("humaneval", {}, 164 * 511),
        ("humaneval", {"tokens": 5000}, 5000),
        ("auslegal", {"documents": 10, "length": 128}, 1270),
    ],
)
def test_tokens_at_most_by_the_authors_protocol(corpus: str, options: dict[str, int], tokens: int) -> None:
    assert tokens_at_most(corpus, protocol("authors", **options)) == tokens


def test_of_whole_documents_the_corpus_alone_decides() -> None:
    assert tokens_at_most("wikipedia", protocol("windows")) is None


def test_the_ladders_study_is_planned_as_it_was_measured() -> None:
    study = read_study(ROOT / "studies" / "ladder.toml")
    stores = [json.loads(path.read_text()) for path in LADDER.glob("families-ranks/neox/*/manifest.json")]
    measured = {(one["about"]["model"], one["about"]["dataset"]): one["tokens"] for one in stores}
    plan = make_plan(study)
    assert {(model_label(c.cell), c.cell.corpus.name.removeprefix("ladder/")): c.tokens for c in plan.costs} == measured
    assert plan_json(plan, [1])["jobs"] == {"shard": 28, "merge": 28, "table": 1, "chapter": 2, "book": 1}
    assert "?" not in "\n".join(plan_lines(plan, [1])[:-1])


def test_on_cpus_the_plan_speaks_of_cpu_hours_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('models = ["EleutherAI/pythia-14m"]\ncorpora = ["humaneval"]\ndevice = "cpu"\nthreads = 2')
    study = read_study(path)
    plan = make_plan(study, on_gpu=False)
    text = "\n".join(plan_lines(plan, [3]))
    assert "GPU" not in text
    assert "1 model × 1 corpus (humaneval)" in text
    assert "here, on CPUs, 3 jobs at a time on 2 CPU cores each" in text
    (cost,) = plan.costs
    assert cost.size is not None
    assert cost.tokens is not None
    assert cost.memory == job_memory(study, cost.cell, on_gpu=False) * 1e6
    assert cost.seconds == flops_of(cost.size, cost.tokens, study.protocol) / (2 * CPU_CORE)
    assert f"up to {cost.memory / 1e9:.1f} GB of memory for a job" in text
    assert f"{2 * (cost.shard_seconds or 0) / 3600:.2f}" in text  # CPU hours are those of all cores
    assert {"cpu_memory", "cpu_seconds"} < plan_json(plan, [3])["cells"][0].keys()
    assert "GPU hours" in "\n".join(plan_lines(make_plan(study), [1, 8]))


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_a_study_of_what_is_here_is_planned_to_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """Local models on a local text: nothing is unknown, and the tokens are those that are ranked then."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    models = [str(LADDER / "families" / family / f"{family}-10k-at-8m") for family in ("neox", "lstm")]
    text, path = tmp_path / "mine.txt", tmp_path / "s.toml"
    text.write_text((ROOT / "README.md").read_text(encoding="utf-8")[:3000], encoding="utf-8")
    path.write_text(f'models = {models}\ncorpora = ["{text}"]\ndevice = "{device}"\nthreads = 1')
    said = here("study", "plan", str(path))
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("?") == 1  # what it would mean
    study = read_study(path)
    (store, _) = extract(models, [str(text)], study.protocol, tmp_path / "ranks", Settings(device="cpu"))
    plan = make_plan(study, on_gpu=False, here=True)
    assert [cost.tokens for cost in plan.costs] == [open_store(store).tokens] * 2
    assert plan.hours(1) == pytest.approx(sum(c.shards * (c.shard_seconds or 0) for c in plan.costs) / 3600)


def test_the_command_says_what_a_study_takes_without_gpus(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    least = 'models = ["EleutherAI/pythia-14m"]\ncorpora = ["humaneval"]\n'
    path.write_text(least)
    said = here("study", "plan", str(path)).stdout
    assert "on 64 GPUs" in said
    assert "Without GPUs: here, on CPUs, " in said
    path.write_text(least + 'device = "cpu"')
    assert "GPU" not in here("study", "plan", str(path)).stdout
    refused(here("study", "plan", str(path), "--gpus", "8"), "this study runs on CPUs", "--gpus")


@pytest.mark.parametrize(
    ("device", "gpus", "on_cpu"),
    [("auto", '"auto"', False), ("cpu", '"auto"', True), ("auto", "0", True), ("cuda", "0", False)],
)
def test_a_study_says_whether_it_is_one_for_cpus(tmp_path: Path, device: str, gpus: str, on_cpu: bool) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'models = ["a/b"]\ncorpora = ["c4"]\ndevice = "{device}"\ngpus = {gpus}')
    assert read_study(path).on_cpu == on_cpu


def test_more_gpus_never_take_longer_and_share_evenly_at_first() -> None:
    plan = make_plan(read_study(ROOT / "studies" / "paper.toml"))
    hours = [plan.hours(n) or 0 for n in (1, 2, 8, 64, 10_000)]
    assert hours == sorted(hours, reverse=True)
    assert hours[0] == pytest.approx(sum(c.shards * (c.shard_seconds or 0) for c in plan.costs) / 3600)
    assert hours[1] == pytest.approx(hours[0] / 2, rel=0.01)
    assert hours[-1] == pytest.approx(max(c.shard_seconds or 0 for c in plan.costs) / 3600)  # the longest shard


def test_a_budget_for_the_plan_takes_as_many_documents_as_it_needs() -> None:
    plan = make_plan(read_study(ROOT / "studies" / "paper.toml"), tokens=1_000_000)
    by_corpus = {cost.cell.corpus.name: cost.tokens for cost in plan.costs}
    assert by_corpus["wikipedia"] == 1_000_000
    assert by_corpus["humaneval"] == 164 * 511  # there are no more


def test_what_does_not_fit_a_gpu_is_named_with_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('families = ["Pythia"]\ncorpora = ["c4"]\n[gpu]\nmemory = 40.0\nname = "A"')
    ((name, need),) = make_plan(read_study(path)).too_large
    assert name == "EleutherAI/pythia-12b"
    assert 47e9 < need < 55e9


def test_a_token_takes_what_the_plan_says(tmp_path: Path) -> None:
    windows, model = protocol("windows", length=256, pack=8192), LADDER / "families" / "neox" / "neox-22k-at-8m"
    (folder,) = extract([str(model)], ["ladder/humaneval"], windows, tmp_path, Settings(device="cpu"))
    store = open_store(folder)
    size = sum(part.stat().st_size for part in store.parts)
    assert size / store.tokens == pytest.approx(STORED, rel=0.3)  # it differs by text: Wikipedia's ranks are larger


def test_a_job_asks_for_its_weights_and_no_less(study: Study, write_study: Callable[..., Path]) -> None:
    cell = study.cells[0]
    assert job_memory(study, cell, on_gpu=False) >= 1200
    paper = read_study(ROOT / "studies" / "paper.toml")
    large = next(cell for cell in paper.cells if cell.model.name.endswith("12b"))
    assert job_memory(paper, large, on_gpu=True) > 11_846_072_320 * 4 / 1e6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtypes": ["float3"]}, 'Did you mean "float32"'),
        ({"dtypes": []}, "an empty list"),
        ({"gpus": [8, 0]}, "0 is below 1"),
        ({"shards": 0}, "0 is below 1"),
    ],
)
def test_what_a_chapter_cannot_plan_is_named(change: dict[str, Any], said: str) -> None:
    cost.check_scale(**PLANNED)
    with pytest.raises(ParameterError, match=said):
        cost.check_scale(**PLANNED | change)


def test_evenness_is_one_where_the_work_divides() -> None:
    rows = [("float32", 2, 8, 2.0), ("float32", 2, 1, 16.0), ("float32", 1, 1, 16.0), ("float32", 1, 8, 8.0)]
    table = pd.DataFrame(rows, columns=["dtype", "shards", "gpus", "hours"])
    assert cost.evenness(table, "float32", 2) == 1.0
    assert cost.evenness(table, "float32", 1) == 0.25
