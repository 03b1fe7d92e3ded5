"""The functions for programs: `rank` texts by a model, `compare` two models, fit a `law`, `plot` it.

Heavy modules are imported when they are needed.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rbp.errors import ParameterError
from rbp.io import home_expanded, temporary_folder

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from matplotlib.figure import Figure

    from rbp.laws.comparison import Comparison
    from rbp.laws.power import PowerLawFit
    from rbp.measurements import Source
    from rbp.measurements.ranked import Ranked
    from rbp.metric import TieRule
    from rbp.store import RankStore

    #: what `rank` gives, several of them, or what `open_source` takes or gives
    Measurements: TypeAlias = Source | Ranked | str | Path | Sequence[Ranked | str | Path]


def rank(
    model: Any,
    texts: str | Path | Iterable[str] | Iterable[Mapping[str, Any]],
    *,
    tokenizer: Any = None,
    field: str | None = None,
    prompt: str | None = None,
    length: int | None = None,
    tokens: int | None = None,
    name: str | None = None,
    dataset: str = "texts",
    device: "str | torch.device | None" = None,
) -> "Ranked":
    """Rank every token of texts by a model, exactly, and check a sample of the ranks the plain way.

        >>> import rbp
        >>> ranked = rbp.rank("data/ladder/families/neox/neox-10k-at-8m", ["def add(a, b):\\n    return a + b"])
        >>> len(ranked.to_pandas())
        11
        >>> 0 <= ranked.rbp(1) <= ranked.rbp(10) <= 1
        True

    model: of transformers, in memory, with its `tokenizer`; or a hub id (or id@revision) or a folder, which have their
    own. One in memory is ranked as it is, in its dtype on its device; others in float32 on `device` (auto), by name or
    as PyTorch has it. In a short dtype the output layer's sums are of float32, and not rounded as the model's own
    logits are. texts: strings; rows with their text in `field` (default: text), such as a `datasets.Dataset`; or a
    corpus or a file, as `rbp extract` takes it. prompt: the field of what the model reads before each text, and is not
    scored; rows with the fields prompt and completion, and without text, are read so by themselves.

    Texts are read whole, in windows of `length` tokens (default: what the model reads, up to 1024), in which each token
    has at least half a window before it, or all that there is; up to `tokens` in all. name: what the model is called
    (default: its own name); dataset: what texts without a name are called.

    The result knows `rbp(k)`, `cross_entropy` and `to_pandas()`; `save(folder)` keeps it as a rank store, which all
    commands read. Raises ParameterError for what is no model, tokenizer or text, and DataError for a text or a model
    that cannot be ranked.
    """
    from rbp.choices import Settings
    from rbp.extract.extraction import extract
    from rbp.measurements.ranked import Ranked
    from rbp.models.find import ModelFiles, find_model
    from rbp.models.load import Loaded
    from rbp.store import open_store
    from rbp.texts.corpora import given_corpus, open_corpus
    from rbp.texts.protocol import protocol

    files: ModelFiles | Loaded
    if isinstance(model, str | Path):
        if tokenizer is not None:
            raise ParameterError("a model by its name has its own tokenizer", "tokenizer", "Leave it out.")
        files = find_model(str(model))
        files = replace(files, name=name or files.name)
    else:
        if device:
            fault = "a model in memory is ranked where it is"
            raise ParameterError(fault, "device", "Leave it out: model.to(…) moves it.")
        config = getattr(model, "config", None)
        default_name = getattr(config, "_name_or_path", "") or getattr(config, "model_type", "")
        files = Loaded(name or default_name, model, tokenizer)
    if isinstance(texts, str | Path):
        try:
            fields = [field] if field else []
            corpus = open_corpus(str(texts), fields, partly=tokens is not None, prompt=prompt)
        except ParameterError as error:
            raise ParameterError(error.what, "texts", f"A text itself goes into a list. {error.remedy}") from None
    else:
        corpus = given_corpus(texts, dataset, field, prompt)
    windows = protocol("windows", length=length, tokens=tokens, configs=[files.config])
    settings = Settings(device=str(device or "auto"))
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("rbp-ranks"))
        (store,) = extract([files], [corpus], windows, folder, settings)
        ranked = Ranked(open_store(store))
        weakref.finalize(ranked, stack.pop_all().close)  # it lies there as long as the result is in use
    return ranked


def compare(
    a: "Ranked | str | Path",
    b: "Ranked | str | Path",
    *,
    k: Sequence[int] | None = None,
    tie_rule: "TieRule | None" = None,
    level: float = 0.95,
    tokenizer: Any = None,
) -> "Comparison":
    """Compare two models token by token: what one that was quantized, pruned or tuned (b) lost against another (a).

        >>> import rbp
        >>> ladder = rbp.open_source("ladder").ranked.stores  # by size
        >>> stores = [store.folder for store in ladder if store.dataset == "humaneval"]
        >>> comparison = rbp.compare(stores[-1], stores[0], k=[1, 10])
        >>> print(comparison.table[["metric", "k", "difference"]].round(2).to_string(index=False))
               metric    k  difference
        cross_entropy <NA>        1.00
          neg_log_rbp    1        0.56
          neg_log_rbp   10        0.31

    a, b: results of `rank`, or the folders of rank stores, of the same tokens of one text, read and counted alike. k:
    thresholds (1, 10, 100 and 1000); tie_rule: how equal scores count (as they were counted by another program, or as
    in the paper); level: the confidence of intervals, of differences within documents; tokenizer: shows tokens as
    text, a tokenizer or its folder (default: the models' own, where it still is where it was).

    The result prints itself; its tables are `table`, `quantiles`, `tokens` and `passages`. Raises DataError for stores
    that cannot be compared, and says why.
    """
    from rbp.laws.comparison import KS
    from rbp.laws.comparison import compare as compare_stores
    from rbp.measurements.known_tokenizer import find_tokenizer

    stores = [_store(result) for result in (a, b)]
    comparison = compare_stores(*stores, ks=KS if k is None else k, rule=tie_rule, level=level)
    if tokenizer is None or isinstance(tokenizer, str | Path):
        tokenizer = find_tokenizer(stores, None if tokenizer is None else str(tokenizer))
    return replace(comparison, tokenizer=tokenizer)


def law(
    measurements: "Measurements",
    *,
    k: int | None = 1,
    dataset: str | None = None,
    family: str | None = None,
    level: float = 0.95,
) -> "PowerLawFit":
    """Fit the power law of −ln RBP_k (k None: of the cross-entropy) in the size S of the models of one family.

        >>> import rbp
        >>> fit = rbp.law("published", k=1, dataset="wikipedia", family="Pythia")
        >>> print(f"{fit.alpha:.3f}, {fit.alpha_low:.3f} to {fit.alpha_high:.3f}, {fit.n} models")
        0.079, 0.074 to 0.085, 10 models

    measurements: results of `rank`, or what `open_source` takes or gives. dataset, family: which, where there are
    several. level: the confidence of intervals. Raises ParameterError for what is not there, or if it is not clear
    which is meant; FitError if the points cannot carry a law.
    """
    from rbp.laws.power import fit_power_law

    table = _chosen(_source(measurements), k, dataset, family)
    if len(families := list(dict.fromkeys(table["family"]))) > 1:
        raise ParameterError(f"there are several families: {', '.join(families)}", "family", "Give one of them.")
    return fit_power_law(table["size"], table["value"], level=level)


def plot(
    measurements: "Measurements",
    *,
    k: int | None = None,
    dataset: str | None = None,
    family: str | None = None,
    level: float = 0.95,
) -> "Figure":
    """Draw −ln RBP_k against the size S, with the law of each family; without k, RBP_k against k, a line a model.

        >>> import rbp
        >>> figure = rbp.plot("published", k=10, dataset="wikipedia")
        >>> figure.axes[0].get_xscale(), figure.axes[0].get_yscale()
        ('log', 'log')

    All else: as `law`. Against k it takes results of `rank`, or rank stores. Gives a figure of Matplotlib.
    """
    from rbp.report.law import against_k, against_size, stores_behind

    source = _source(measurements)
    table = _chosen(source, k, dataset, family)
    if k is not None:
        panels = against_size(table, level)
    elif stores := stores_behind(source, set(table["dataset"]), set(table["model"])):
        panels = against_k(stores, 100)
    else:
        raise ParameterError("a curve against k takes rank stores", source.name, "Give k, or results of rank.")
    return panels.single(panels.keys[0])


def _store(result: "Ranked | str | Path") -> "RankStore":
    """Open the one rank store that is meant. Raises ParameterError where there are several."""
    from rbp.measurements.ranked import Ranked
    from rbp.store import open_store, store_folders

    if isinstance(result, Ranked):
        return result.store
    folders = store_folders([home_expanded(str(result))])
    if len(folders) > 1:
        raise ParameterError(f"there are {len(folders)} rank stores", str(result), f"Give one: {folders[0]}.")
    return open_store(folders[0])


def _source(measurements: "Measurements") -> "Source":
    from rbp.measurements import Source, open_source
    from rbp.measurements.ranked import Ranked

    if isinstance(measurements, Source):
        return measurements
    several = [measurements] if isinstance(measurements, Ranked) else measurements
    if isinstance(several, str | Path):
        return open_source(several)
    results = [(result.store.model, result.store.dataset) for result in several if isinstance(result, Ranked)]
    if twice := next((result for result in results if results.count(result) > 1), None):
        fault = f"two results are called {twice[0]} on {twice[1]}"
        raise ParameterError(fault, "measurements", "Give each model its own name: rank(…, name=…).")
    return open_source([result.store.folder if isinstance(result, Ranked) else result for result in several])


def _chosen(source: "Source", k: int | None, dataset: str | None, family: str | None) -> "pd.DataFrame":
    """Select the measurements of one dataset. Raises ParameterError if there are several, and none is named."""
    from rbp.measurements import select
    from rbp.measurements.table import warn_of_no_hits

    metric = "cross_entropy" if k is None else "neg_log_rbp"
    source = source if k is None else source.with_thresholds([k])
    table = select(source.table, dataset=dataset, family=family, metric=metric, k=k)
    if len(datasets := list(dict.fromkeys(table["dataset"]))) > 1:
        raise ParameterError(f"there are several datasets: {', '.join(datasets)}", "dataset", "Give one of them.")
    if k is not None:
        warn_of_no_hits(select(source.table, dataset=datasets, family=family), [k])
    return table
