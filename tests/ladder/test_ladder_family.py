"""A family and its ranks: one made up on the spot, and the one that is shipped."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from made_ladder import quiet

from rbp.core.errors import DataError, ParameterError
from rbp.core.files import sha256
from rbp.core.paths import LADDER
from rbp.evidence import open_source
from rbp.ladder import ranking, runs, shipping
from rbp.ladder.recipe import Recipe, read
from rbp.ladder.workspace import Workspace
from rbp.ranks.corpora import Corpus
from rbp.ranks.forward import Ranker
from rbp.ranks.metric import rank, rbp
from rbp.ranks.models import find_model, load_model, load_tokenizer
from rbp.ranks.protocols import plan_rows
from rbp.ranks.store import RankStore, open_store, store_folders


@dataclass(frozen=True)
class Family:
    """folder: as it is shipped; sample: documents of a domain that are ranked again."""

    folder: Path
    recipe: Recipe
    domain: str
    sample: int

    @property
    def model(self) -> str:
        weights = (self.folder / "models").glob("*/model.safetensors")
        return min(weights, key=lambda path: path.stat().st_size).parent.name

    @property
    def store(self) -> RankStore:
        (folder,) = (self.folder / "ranks").glob(f"{self.model}-{self.domain}-*")
        return open_store(folder)


@pytest.fixture(scope="session")
def made(workshop: tuple[Workspace, Recipe], tmp_path_factory: pytest.TempPathFactory) -> Family:
    place, recipe = workshop
    to = tmp_path_factory.mktemp("shipped")
    assert shipping.ship(place, recipe, to) == []
    return Family(to, recipe, "tales", 2)


@pytest.fixture(params=[pytest.param("made", marks=pytest.mark.builds), "shipped"])
def family(request: pytest.FixtureRequest) -> Family:
    return request.getfixturevalue("made") if request.param == "made" else Family(LADDER, read(), "humaneval", 12)


def test_the_runs_of_a_recipe_are_those_asked_for_the_longest_first(made: Family) -> None:
    names = [which.name for which in runs.choose_runs(made.recipe)]
    assert names == ["ladder-large", "ladder-small", "ladder-small-seed1"]
    assert [which.name for which in runs.choose_runs(made.recipe, ["small"], [1])] == ["ladder-small-seed1"]
    with pytest.raises(ParameterError, match="There is: 0"):
        runs.choose_runs(made.recipe, ["large"], [1])


def test_the_ranks_are_those_of_the_shipped_weights_on_the_rebuilt_texts(family: Family) -> None:
    documents = ranking.evaluation_documents(family.domain, family.folder)[: family.sample]
    corpus = ranking.evaluation_corpus(family.domain, documents)
    files = find_model(str(family.folder / "models" / family.model))
    rows = plan_rows(corpus, load_tokenizer(files), ranking.windows(family.recipe)).rows
    language = load_model(files, "float32", torch.device("cpu"))
    found = Ranker(language, family.store.manifest["key"]["backend"], 8, compiled=False).rank(rows)
    stored = family.store.ranks().query("document < @family.sample")
    np.testing.assert_array_equal(stored["token"], np.concatenate([row.ids[row.scored] for row in rows]))
    np.testing.assert_array_equal(stored["position"], np.concatenate([row.start + row.scored for row in rows]))
    moved = (stored["greater"] != found.greater) | (stored["equal"] != found.equal)
    assert moved.mean() <= 1e-3  # by last bits alone, if at all: see `rbp.paper.near_ties`
    np.testing.assert_allclose(stored["nll"], found.nll, atol=1e-4)


def test_rbp_from_a_store_is_that_of_stored_logits_for_every_k(family: Family) -> None:
    """The logits of some documents, by the whole model; ranks by counting; RBP_k by its definition."""
    files = find_model(str(family.folder / "models" / family.model))
    tokenizer, context = load_tokenizer(files), family.recipe.text.context
    model = load_model(files, "float32", torch.device("cpu")).model
    counted, nll = [], []
    for document in ranking.evaluation_documents(family.domain, family.folder)[: family.sample]:
        ids = torch.tensor(tokenizer(document.text)["input_ids"])[:context]
        with torch.inference_mode():
            logits = model(input_ids=ids[None]).logits[0, :-1].double()
        of_truth = logits.gather(1, ids[1:, None])
        counted += (1 + (logits > of_truth).sum(1)).tolist()
        nll += (logits.logsumexp(1) - of_truth[:, 0]).tolist()
    stored = family.store.ranks().query("document < @family.sample and position < @context")
    ours, brute = np.asarray(rank(stored["greater"], stored["equal"])), np.array(counted)
    assert len(ours) == len(brute)
    assert np.count_nonzero(ours != brute) <= 1  # another product may round two logits to the other order
    for k in range(1, family.store.vocabulary + 1):
        assert abs(rbp(ours, k) * len(ours) - np.count_nonzero(brute <= k)) <= 1.001, k
    assert rbp(ours, family.store.vocabulary) == 1.0
    np.testing.assert_allclose(stored["nll"], nll, atol=1e-4)


def test_measurements_are_those_of_the_stores_and_no_rung_is_there_twice(family: Family) -> None:
    whole = open_source(family.folder / "ranks")
    table = whole.table
    assert set(table["family"]) == {"Ladder"}
    assert set(table["dataset"]) == {domain.name for domain in family.recipe.domains}
    entries = {entry["name"]: entry for entry in json.loads((family.folder / "runs.json").read_text())}
    for model, rows in table.groupby("model"):
        assert (rows["size"] == entries[model]["size"]).all()
    assert not table["model"].str.contains("seed").any()
    store = family.store
    mine = table[(table["model"] == store.model) & (table["dataset"] == store.dataset)].set_index("k")
    tokens = store.ranks()
    assert mine.loc[10, "hits"] == (tokens["greater"] < 10).sum()
    assert set(whole.windows["model"]) == set(table["model"]) == {one.model for one in whole.histograms}
    pd.testing.assert_frame_equal(open_source(family.folder / "ranks").table, table)


def test_what_is_shipped_says_what_it_is_and_fits(family: Family) -> None:
    folder, entries = family.folder, json.loads((family.folder / "runs.json").read_text())
    curves = pd.read_csv(folder / "training.csv")
    weights = 0
    for entry in entries:
        path = folder / "models" / entry["name"] / "model.safetensors"
        assert entry["shipped"] == path.is_file()
        first = entry["seed"] == family.recipe.rung(entry["rung"]).seeds[0]
        assert (folder / "models" / entry["name"]).is_dir() == entry["shipped"]
        assert first >= entry["shipped"]
        if entry["shipped"]:
            assert sha256(path) == entry["checksum"]
            weights += path.stat().st_size
        if first:
            assert entry["precision"]["tokens"] > 0
            assert all(abs(change) < 1 for change in entry["precision"]["neg_log_rbp"].values())
        curve = curves[(curves["rung"] == entry["rung"]) & (curves["seed"] == entry["seed"])]
        assert len(curve) <= 200
        assert curve["tokens"].iloc[-1] == entry["tokens"]
        assert curve["loss"].iloc[-1] < curve["loss"].iloc[0]
    there = [folder / name for name in ("ranks", "seeds") if (folder / name).is_dir()]
    assert len(there) == 1 + any("-seed" in entry["name"] for entry in entries)
    stores = [open_store(path) for path in store_folders(there)]
    assert all(store.problems() == [] for store in stores)
    of_seeds = {store.model for store in stores if store.folder.parent.name == "seeds"}
    assert all("-seed" in model for model in of_seeds)
    assert weights <= 25e6
    assert sum(path.stat().st_size for each in there for path in each.rglob("*")) <= 60e6
    assert {(store.tokens) for store in stores if store.dataset == family.domain} == {family.store.tokens}


def test_the_shipped_domains_are_large_enough_and_their_texts_are_the_ones_described() -> None:
    about = {part["name"]: part for part in json.loads((LADDER / "text.json").read_text())["evaluation"]}
    assert set(about) == {"wikipedia", "humaneval", "hotpotqa", "auslegal"}
    for name, part in about.items():
        documents = ranking.evaluation_documents(name)
        assert len(documents) == part["documents"]
        assert ranking.evaluation_corpus(name, documents).fingerprint == {"texts": part["fingerprint"]}
        tokens = {store.tokens for store in map(open_store, (LADDER / "ranks").glob(f"*-{name}-*"))}
        assert tokens == {part["tokens"] - part["documents"]}
        assert tokens.pop() >= 200_000 or name == "humaneval"


def test_the_counts_of_tokens_are_shipped_and_are_those_of_the_rows(
    workshop: tuple[Workspace, Recipe], made: Family
) -> None:
    place, recipe = workshop
    tokens = Counter(np.load(place / "rows.npy").ravel().tolist())
    assert shipping.read_token_counts(made.folder).tolist() == [
        tokens[token] for token in range(recipe.text.vocabulary)
    ]


def test_texts_are_rebuilt_exactly(workshop: tuple[Workspace, Recipe], made: Family) -> None:
    place, _ = workshop
    for domain in ("questions", "tales"):
        written = ranking.read_corpus(place, domain)
        rebuilt = ranking.evaluation_corpus(domain, ranking.evaluation_documents(domain, made.folder))
        assert isinstance(written, Corpus)
        assert (rebuilt.documents, rebuilt.fingerprint) == (written.documents, written.fingerprint)
    with pytest.raises(ParameterError, match="There is: questions, tales"):
        ranking.evaluation_documents("code", made.folder)


def test_a_ladder_without_files_says_how_to_make_them(made: Family, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(DataError, match="rbp ladder train"):
        ranking.evaluation_documents("tales", tmp_path)
    monkeypatch.setattr("rbp.evidence.sources.LADDER", tmp_path)
    with pytest.raises(DataError, match=r"(?s)the ladder has no ranks.*rbp ladder rank"):
        _ = open_source("ladder:v1").table
    monkeypatch.setattr("rbp.evidence.sources.LADDER", made.folder)
    assert {store.folder.parent for store in open_source("ladder:v1").stores} == {made.folder / "ranks"}


def test_ranking_again_changes_nothing_and_stores_of_other_weights_go(workshop: tuple[Workspace, Recipe]) -> None:
    place, recipe = workshop
    which = runs.choose_runs(recipe, ["small"], [0])[0]
    threads = torch.get_num_threads()
    (kept,) = (place / "ranks").glob("ladder-small-tales-*")
    before = (kept / "manifest.json").read_bytes()
    stale = kept.with_name("ladder-small-tales-0123456789abcdef")
    stale.mkdir()
    ranking.rank(quiet, place, recipe, which, ["tales"])
    torch.set_num_threads(threads)
    assert (kept / "manifest.json").read_bytes() == before
    assert not stale.exists()


def test_weights_that_do_not_fit_are_left_out_and_said(
    workshop: tuple[Workspace, Recipe], tmp_path: Path, monkeypatch
) -> None:
    place, recipe = workshop
    monkeypatch.setattr(shipping, "WEIGHTS", (place / "models" / "ladder-small" / "model.safetensors").stat().st_size)
    assert shipping.ship(place, recipe, tmp_path) == ["ladder-large"]
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["ladder-small"]
    entries = {entry["name"]: entry["shipped"] for entry in json.loads((tmp_path / "runs.json").read_text())}
    assert entries == {"ladder-small": True, "ladder-small-seed1": False, "ladder-large": False}
    part = next((place / "ranks").glob("*/parts/*"))
    data = part.read_bytes()
    part.write_bytes(data[:-1])
    with pytest.raises(DataError, match="truncated or altered"):
        shipping.ship(place, recipe, tmp_path)
    part.write_bytes(data)


def test_a_trained_model_is_the_state_in_half_precision(workshop: tuple[Workspace, Recipe]) -> None:
    from safetensors.torch import load_file

    place, recipe = workshop
    which, about = runs.finished_runs(place, recipe)[0]
    state = load_file(place.run(*which) / "state.safetensors")
    assert about["name"] == which.name == "ladder-small"
    files = find_model(str(place.model(*which)))
    assert files.config["dtype"] == "float16"
    weights = load_model(files, "float32", torch.device("cpu")).model.state_dict()
    assert {f"model.{name}" for name in weights} == {name for name in state if name.startswith("model.")}
    for name, value in weights.items():
        assert torch.equal(value, state[f"model.{name}"].half().float())
