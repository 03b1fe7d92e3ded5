"""A family and its ranks: one made up on the spot, and the one that is shipped."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from made_ladder import quiet

from companion.project import LADDER
from ladder import aggregates, ranking
from ladder.making import Making
from ladder.recipe import Recipe, read_recipe
from ladder.shipping import RESOLUTION
from rbp.errors import DataError, ParameterError
from rbp.extract.corpora import Corpus
from rbp.extract.forward import Ranker
from rbp.extract.models import ModelFiles, find_model, load_model, load_tokenizer
from rbp.extract.protocol import plan_rows
from rbp.extract.store import RankStore, open_store, store_folders
from rbp.io import sha256
from rbp.measurements import open_source
from rbp.metric import rank, rbp

ROUNDED = 0.51 / RESOLUTION  # at most, of −ln p in shipped stores


@dataclass(frozen=True)
class Family:
    """Shipped transformers: folder: a ladder's; sample: documents of a domain that are ranked again."""

    folder: Path
    recipe: Recipe
    domain: str
    sample: int

    @property
    def ranks(self) -> Path:
        return self.folder / "families-ranks" / "neox"

    @property
    def model(self) -> Path:
        """The smallest."""
        weights = (self.folder / "families" / "neox").glob("*/model.safetensors")
        return min(weights, key=lambda path: path.stat().st_size).parent

    @property
    def store(self) -> RankStore:
        (folder,) = self.ranks.glob(f"{self.model.name}-{self.domain}-*")
        return open_store(folder)


@pytest.fixture
def made(workshop: tuple[Making, Path]) -> Family:
    making, folder = workshop
    return Family(folder, making.base, "tales", 2)


@pytest.fixture(params=[pytest.param("made", marks=pytest.mark.builds), "shipped"])
def family(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Family:
    if request.param == "shipped":
        return Family(LADDER, read_recipe(), "humaneval", 12)
    made: Family = request.getfixturevalue("made")
    monkeypatch.setattr("ladder.registered.LADDER", made.folder)  # whose models have its tokenizer
    return made


def of_smallest(family: Family) -> ModelFiles:
    assert not (family.model / "tokenizer.json").exists()
    return find_model(str(family.model))


def test_the_ranks_are_those_of_the_shipped_weights_on_the_rebuilt_texts(family: Family) -> None:
    documents = ranking.evaluation_documents(family.domain, family.folder)[: family.sample]
    corpus = ranking.evaluation_corpus(family.domain, documents)
    files = of_smallest(family)
    rows = plan_rows(corpus, load_tokenizer(files), ranking.windows(family.recipe)).rows
    language = load_model(files, "float32", torch.device("cpu"))
    found = Ranker(language, family.store.manifest["key"]["backend"], 8, compiled=False).rank(rows)
    stored = family.store.ranks().query("document < @family.sample")
    np.testing.assert_array_equal(stored["token"], np.concatenate([row.ids[row.scored] for row in rows]))
    np.testing.assert_array_equal(stored["position"], np.concatenate([row.start + row.scored for row in rows]))
    moved = (stored["greater"] != found.greater) | (stored["equal"] != found.equal)
    assert moved.mean() <= 1e-3  # by last bits alone, if at all: see `companion.chapters.near_ties`
    np.testing.assert_allclose(stored["nll"], found.nll, atol=1e-4 + ROUNDED)


def test_rbp_from_a_store_is_that_of_stored_logits_for_every_k(family: Family) -> None:
    """The logits of some documents, by the whole model; ranks by counting; RBP_k by its definition."""
    files = of_smallest(family)
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
    np.testing.assert_allclose(stored["nll"], nll, atol=1e-4 + ROUNDED)


def test_measurements_are_those_of_the_stores_and_no_rung_is_there_twice(family: Family) -> None:
    whole = open_source(family.ranks)
    table = whole.table
    assert set(table["family"]) == {"neox"}
    assert set(table["dataset"]) == {domain.name for domain in family.recipe.domains}
    entries = {entry["name"]: entry for entry in json.loads((family.folder / "families.json").read_text())}
    for model, rows in table.groupby("model"):
        assert (rows["size"] == entries[model]["size"]).all()
    assert not table["model"].str.contains("seed").any()
    store = family.store
    mine = table[(table["model"] == store.model) & (table["dataset"] == store.dataset)].set_index("k")
    tokens = store.ranks()
    assert mine.loc[10, "hits"] == (tokens["greater"] < 10).sum()
    assert set(whole.windows["model"]) == set(table["model"]) == {one.model for one in whole.histograms}
    pd.testing.assert_frame_equal(open_source(family.ranks).table, table)


def test_shipped_weights_are_those_of_the_records_and_stores_are_whole(family: Family) -> None:
    entries = {entry["name"]: entry for entry in json.loads((family.folder / "families.json").read_text())}
    weights = list(family.folder.glob("families/*/*/model.safetensors"))
    assert len(weights) >= 2
    for path in weights:
        entry = entries[path.parent.name]
        assert sha256(path) == entry["checksum"]
        assert (entry["seed"], entry["family"]) == (0, path.parent.parent.name)
        assert find_model(str(path.parent)).tokenizer == family.folder / "tokenizer"
    stores = [open_store(path) for path in store_folders([family.ranks])]
    assert all(store.problems() == [] for store in stores)
    assert {store.tokens for store in stores if store.dataset == family.domain} == {family.store.tokens}


def test_the_shipped_domains_are_large_enough_and_their_texts_are_the_ones_described() -> None:
    about = {part["name"]: part for part in json.loads((LADDER / "text.json").read_text())["evaluation"]}
    assert set(about) == {"wikipedia", "humaneval", "hotpotqa", "auslegal"}
    for name, part in about.items():
        documents = ranking.evaluation_documents(name)
        assert len(documents) == part["documents"]
        assert ranking.evaluation_corpus(name, documents).fingerprint == {"texts": part["fingerprint"]}
        tokens = {store.tokens for store in map(open_store, LADDER.glob(f"families-ranks/*/*-{name}-*"))}
        assert tokens == {part["tokens"] - part["documents"]}
        assert tokens.pop() >= 200_000 or name == "humaneval"


def test_texts_are_rebuilt_exactly(workshop: tuple[Making, Path]) -> None:
    making, folder = workshop
    for domain in ("questions", "tales"):
        written = ranking.read_corpus(making.place, domain)
        rebuilt = ranking.evaluation_corpus(domain, ranking.evaluation_documents(domain, folder))
        assert isinstance(written, Corpus)
        assert (rebuilt.documents, rebuilt.fingerprint) == (written.documents, written.fingerprint)
    with pytest.raises(ParameterError, match="There is: questions, tales"):
        ranking.evaluation_documents("code", folder)


def test_a_ladder_without_files_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="rbp ladder train"):
        ranking.evaluation_documents("tales", tmp_path)


def test_ranking_again_changes_nothing_and_stores_of_other_weights_go(workshop: tuple[Making, Path]) -> None:
    making, _ = workshop
    line, threads = making.choose(["neox"], ["narrow"], [0])[0], torch.get_num_threads()
    name = line.at(2_560)
    (kept,) = (making.place / "ranks").glob(f"{name}-tales-*")
    before = (kept / "manifest.json").read_bytes()
    stale = kept.with_name(f"{name}-tales-0123456789abcdef")
    stale.mkdir()
    aggregates.rank(quiet, making, line, 2_560)
    torch.set_num_threads(threads)
    assert (kept / "manifest.json").read_bytes() == before
    assert not stale.exists()


def test_a_trained_model_is_the_state_in_half_precision(workshop: tuple[Making, Path]) -> None:
    from safetensors.torch import load_file

    making, _ = workshop
    line, tokens, about = next(making.finished(making.choose(["neox"])))
    state = load_file(making.place / "training" / line.at(tokens) / "state.safetensors")
    assert about["name"] == line.at(tokens) == "neox-narrow-at-0.00064m"
    files = find_model(str(making.model(line, tokens)))
    assert files.config["dtype"] == "float16"
    weights = load_model(files, "float32", torch.device("cpu")).model.state_dict()
    assert {f"model.{name}" for name in weights} == {name for name in state if name.startswith("model.")}
    for name, value in weights.items():
        assert torch.equal(value, state[f"model.{name}"].half().float())
