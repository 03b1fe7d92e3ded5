"""The commands `rbp extract` and `rbp ranks`: measure models, and read what was measured."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbp.errors import DataError, ParameterError
from rbp.names import split_numbers
from rbp.place import Place

if TYPE_CHECKING:
    import pandas as pd

    from rbp.store import RankStore, SampleCheck


ranks = typer.Typer(no_args_is_help=True, help="Rank stores: list, remove, rename, check, summarize, export.")

Paths = Annotated[list[Path] | None, typer.Argument(help="Rank stores, or folders of them.", show_default="runs/ranks")]
Out = Annotated[Path | None, typer.Option(help="A .csv or .parquet file; default: CSV on standard output.")]
Rule = Annotated[str, typer.Option(help="How equal scores count: paper, strict or expected.")]

_CORPUS = (
    "wikipedia, humaneval, hotpotqa, auslegal, c4, pile-github, or a .txt, .md, .jsonl, .json, .csv or .parquet file, "
    "also packed (.gz, .zst), or - for standard input; several in turn."
)
_PROTOCOL = "authors: 1000 shuffled documents cut to 512 tokens. windows: whole documents, every token once."
_DEFAULT = "authors for the paper's six, windows for other texts"
BOS = (
    "What is put before every window, and never scored. auto: what the tokenizer puts before a text; always: if that "
    "is nothing, its BOS token, or else its EOS token; never: nothing."
)
SPECIAL = "Special tokens written out in the text: read as the token, and not scored, or as plain text."
_DTYPE = (
    "Of weights and hidden states: float32, bfloat16, float16, or float64 where the model computes in it. Ranks are "
    "exact for the logits of these hidden states, summed and compared in float32 (float64)."
)
_ROUND = "bfloat16: rank logits rounded to it, as a model in bfloat16 gives them."
_DEVICES = "auto: one model over all GPUs, memory and disk, where it is too large for one device (extra devices)."
_IMPORTED = (
    "A .csv or .parquet file of columns document, position, token, rank, and logprob or nll, "
    "or what rbp ranks export wrote."
)
_ARGMAX = "How equal scores were counted: paper (so vLLM's V1 engine) or strict."
_SHARD = "Only the I-th of N shares of the packs. Under torchrun: the process's own."
_INTERVALS = (
    "Add 95% intervals: of independent tokens (low, high), and with documents as the units, or blocks of one long text "
    "(document_low, document_high, …)."
)


_REVISION = "Branch, tag or commit of a hub model; a sub-folder of a run's folder, such as checkpoint-500."
_TOKENIZER = (
    "Take the tokenizer of this folder, where the model's folder or GGUF file has none, or one that is unknown."
)
_STEP = "At which step of its training the model stood, where its own files do not say it."
_TRAINED = "How many tokens it had read by then, likewise."


PLAN = "Rank nothing: say how many tokens, operations and bytes it would take, and the time as the model last took."


def extract(
    context: typer.Context,
    model: Annotated[list[str], typer.Option(help="A hub id, a folder or a GGUF file; several are measured in turn.")],
    corpus: Annotated[list[str], typer.Option(help=_CORPUS)],
    protocol: Annotated[str | None, typer.Option(help=_PROTOCOL, show_default=_DEFAULT)] = None,
    tokens: Annotated[int | None, typer.Option(help="Stop after so many ranked tokens.")] = None,
    documents: Annotated[int | None, typer.Option(help="Take the first so many documents.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens that the model reads at once.")] = None,
    before: Annotated[int | None, typer.Option("--context", help="windows: tokens before each, at least.")] = None,
    bos: Annotated[str, typer.Option(help=BOS)] = "auto",
    special: Annotated[str, typer.Option(help=SPECIAL)] = "token",
    dtype: Annotated[str, typer.Option(help=_DTYPE)] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    devices: Annotated[str | None, typer.Option(help=_DEVICES)] = None,
    backend: Annotated[str, typer.Option(help="auto, reference, blocked, tiles or triton.")] = "auto",
    batch: Annotated[int | None, typer.Option(help="Rows at a time; on the CPU it changes no rank.")] = None,
    vocab: Annotated[str, typer.Option(help="The logits that count: all, tokenizer, or how many.")] = "all",
    round_logits: Annotated[str | None, typer.Option(help=_ROUND)] = None,
    revision: Annotated[str | None, typer.Option(help=_REVISION)] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="FOLDER", help=_TOKENIZER)] = None,
    step: Annotated[int | None, typer.Option(help=_STEP)] = None,
    training_tokens: Annotated[int | None, typer.Option(metavar="D", help=_TRAINED)] = None,
    field: Annotated[list[str] | None, typer.Option(help="A field of the corpus file; several are joined.")] = None,
    family: Annotated[str | None, typer.Option(help="The family the models belong to.")] = None,
    pack: Annotated[int, typer.Option(help="Rows in a part of the store.")] = 64,
    out: Annotated[Path | None, typer.Option(help="Folder of the rank stores.", show_default="runs/ranks")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help=_SHARD)] = None,
    plan: Annotated[bool, typer.Option("--plan", help=PLAN)] = False,
) -> None:
    """Rank every token of corpora by models: a rank store each. What is measured already is left alone."""
    from rbp.choices import check_shard, known_backend, known_device, known_dtype
    from rbp.models.training import Training
    from rbp.texts.corpora import check_corpus
    from rbp.texts.protocol import default_protocol, window_length
    from rbp.texts.protocol import protocol as make_protocol

    kind, device, way = known_dtype(dtype), known_device(device), known_backend(backend)
    name = protocol or default_protocol(corpus)
    options = {
        "context": before,
        "documents": documents,
        "tokens": tokens,
        "pack": pack,
        "bos": bos,
        "special": special,
    }
    chosen = make_protocol(name, length=length, **options)  # type: ignore[arg-type]
    limit = int(vocab) if vocab.isdecimal() else vocab
    if isinstance(limit, str) and limit not in ("all", "tokenizer"):
        raise ParameterError(f"unknown vocabulary {vocab!r}", "--vocab", "Give all, tokenizer, or a number.")
    if round_logits not in (None, "bfloat16"):
        raise ParameterError(f"cannot round logits to {round_logits!r}", "--round-logits", "Give bfloat16.")
    if batch is not None and batch < 1:
        raise ParameterError(f"a batch has at least 1 row, not {batch}", "--batch", "Give more.")
    if devices not in (None, "auto"):
        raise ParameterError(f"cannot spread a model over {devices!r}", "--devices", "Give auto.")
    share = None if shard is None else check_shard(_shard(shard))
    for each in corpus:
        check_corpus(each, field or ())
    if devices and shard is None and _launched():
        what = "all GPUs are asked for by each of several processes"
        raise ParameterError(what, "--devices", "Start one process, or leave --devices away.")
    if shard is None and (share := _launched()) and device in ("auto", "cuda"):
        device = _assigned_gpu()
    trained = None if step is None and training_tokens is None else Training(None, training_tokens, step)

    typer.echo(f"{', '.join(model)} …", err=True)  # what reads it takes seconds to import
    from rbp.extract.extraction import Settings, extract_on_gpus, gpus, say_on_stderr
    from rbp.extract.extraction import extract as measure
    from rbp.models.find import find_model
    from rbp.store import open_store

    say_on_stderr()
    model_files = [find_model(each, revision, tokenizer) for each in model]
    if name == "windows" and length is None:
        most = window_length([each.config for each in model_files])
        chosen = make_protocol(name, length=most, **options)  # type: ignore[arg-type]
    settings = Settings(
        dtype=kind,
        device=device,
        devices=devices,  # type: ignore[arg-type]
        backend=way,
        batch=batch,
        vocabulary=limit,  # type: ignore[arg-type]
        round_logits=round_logits,  # type: ignore[arg-type]
        revision=revision,
        fields=tuple(field or ()),
        family=family,
        training=trained,
    )
    place: Place = context.obj
    folder = out or place.runs / "ranks"
    if plan:
        from rbp.extract.extraction import planned
        from rbp.extract.plan import plan_lines

        typer.echo("\n".join(plan_lines(planned(model_files, corpus, chosen, settings, folder))))
        return
    if share is None and devices is None and device in ("auto", "cuda") and len(visible := gpus()) > 1:
        extract_on_gpus(model_files, corpus, chosen, folder, settings, visible)
    for store in measure(model_files, corpus, chosen, folder, settings, share):
        if share is None and (cut := _read(open_store(store))):
            typer.echo(f"{store}  {cut}", err=True)
        typer.echo(str(store))


@ranks.command("list")
def list_(context: typer.Context, paths: Paths = None) -> None:
    """List rank stores."""
    from rbp.models.training import NAMES
    from rbp.store import Store, store_folders

    for folder in store_folders(_paths(context, paths)):
        try:
            manifest = Store(folder).manifest
        except DataError as error:
            typer.echo(f"{folder}  {error.what}")
            continue
        about, key = manifest["about"], manifest["key"]
        state = "" if manifest["complete"] else "  unfinished"
        trained = [f"{name.replace('_', ' ')} {about[name]}" for name in NAMES if name in about]
        typer.echo(
            f"{folder}  {', '.join([about['model'], *trained])} ({about['family']}, S = {about['size']:,}) "
            f"on {about['dataset']}, {key['protocol']['name']} of {key['protocol'].get('length')}, "
            f"{manifest['tokens']:,} tokens, {key['dtype']}, {key['device']}{state}"
        )


@ranks.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help=_IMPORTED)],
    model: Annotated[str, typer.Option(help="What the model is called.")],
    size: Annotated[int, typer.Option(help="S, its parameters but the embeddings'.")],
    vocabulary: Annotated[int, typer.Option(help="How many tokens have a logit.")],
    dtype: Annotated[str, typer.Option(help="Of the scores that were compared, such as bfloat16.")],
    tie_rule: Annotated[str, typer.Option(help=_ARGMAX)],
    dataset: Annotated[
        str | None, typer.Option(help="What the text is called.", show_default="the file's name")
    ] = None,
    family: Annotated[str, typer.Option(help="The family the model belongs to.")] = "unknown",
    engine_version: Annotated[str | None, typer.Option(help="Of the program that ranked, such as 0.11.0.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the rank stores.", show_default="runs/ranks")] = None,
) -> None:
    """Keep the ranks that another program found as a rank store, which all commands read."""
    from rbp.measurements.engines import ImportLabels, import_ranks

    labels = ImportLabels(model, dataset or file.stem, family, size, vocabulary, dtype, tie_rule, engine_version)
    place: Place = context.find_root().obj
    typer.echo(str(import_ranks(file, labels, out or place.runs / "ranks")))


@ranks.command()
def rm(
    paths: Annotated[list[Path], typer.Argument(help="Rank stores, or folders of them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove rank stores, after asking. Nothing but stores is touched."""
    from rbp.store import must_be_stores, remove, store_folders

    folders = store_folders(paths)
    if not yes:
        must_be_stores(folders)
        for folder in folders:
            typer.echo(str(folder), err=True)
        if not typer.confirm(f"Remove {len(folders)} for good?", err=True):
            raise typer.Exit(1)
    remove(folders)


@ranks.command()
def rename(
    store: Annotated[Path, typer.Argument(help="One rank store.")],
    model: Annotated[str | None, typer.Option(help="What its model is called.")] = None,
    dataset: Annotated[str | None, typer.Option(help="What its text is called.")] = None,
    family: Annotated[str | None, typer.Option(help="The family of the model.")] = None,
) -> None:
    """Give a rank store another model's name, data set or family. Its ranks stay as they are."""
    from rbp.store import rename as to_rename

    named = {"model": model, "dataset": dataset, "family": family}
    labels = {name: label for name, label in named.items() if label is not None}
    if not labels:
        raise ParameterError("no new name", "--model, --dataset, --family", "Give one of them.")
    typer.echo(str(to_rename(store, labels)))


@ranks.command()
def check(
    context: typer.Context,
    paths: Paths = None,
    model: Annotated[str | None, typer.Option(help="The stores' model: a sample of its ranks is asked again.")] = None,
    corpus: Annotated[list[str] | None, typer.Option(help="With --model: the text; default: the data set's.")] = None,
    share: Annotated[float, typer.Option(help="With --model: of the tokens, at least.")] = 0.02,
    seed: Annotated[str | None, typer.Option(help="With --model: another sample than the store's own.")] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="FOLDER", help=f"With --model: {_TOKENIZER}")] = None,
) -> None:
    """Verify the checksums of every part: exit 2 if one is missing, truncated or altered.

    With --model, also rank a sample of each store's rows again, a row at a time, and compare: exit 2 if a rank is not
    that of the model's own logits, beyond rounding.
    """
    from rbp.store import REDO, open_store, store_folders

    if not 0 < share <= 1:
        raise ParameterError(f"a share of {share}", "--share", "Give more than 0, and at most 1.")
    if model is None and (corpus or seed is not None or tokenizer is not None):
        raise ParameterError("a text, seed or tokenizer without a model asks nothing", "--model", "Give the model too.")

    wrong = []
    for folder in store_folders(_paths(context, paths)):
        try:
            problems = open_store(folder).problems()
        except DataError as error:
            problems = [error.what]
        wrong += [f"{folder}: {problem}" for problem in problems]
        typer.echo(f"{folder}  {'; '.join(problems) or 'whole'}")
    if wrong:
        raise DataError(f"{len(wrong)} problems, the first: {wrong[0]}", None, REDO)
    if model is None:
        return

    from rbp.extract.extraction import verify_store

    for store in _stores(context, paths):
        sampled, rows = verify_store(store, model, corpus or (), share, seed, tokenizer)
        typer.echo(
            f"{store.folder}  {_checked(sampled, store.tokens)} ({sampled.rows:,} of {rows:,} rows); one wrong token "
            f"would have been missed with probability {1 - sampled.tokens / store.tokens:.3f}"
        )


@ranks.command()
def summary(
    context: typer.Context,
    paths: Paths = None,
    k: Annotated[str | None, typer.Option(help="Thresholds with commas, or all.", show_default="1,10,100,1000")] = None,
    tie_rule: Rule = "paper",
    intervals: Annotated[bool, typer.Option("--intervals", help=_INTERVALS)] = False,
    by: Annotated[str | None, typer.Option(help="document: a row for each document instead.")] = None,
    out: Out = None,
) -> None:
    """Tabulate the measurements of rank stores: −ln RBP_k, cross-entropy, perplexity, mean reciprocal rank (mrr).

    macro_rbp is the mean over documents of each one's RBP_k; bits_per_byte compares models of several tokenizers.
    """
    import pandas as pd

    from rbp.measurements import COLUMNS
    from rbp.measurements.counts import store_table
    from rbp.measurements.ranked import Ranked, by_document, with_intervals, with_other_units
    from rbp.metric import rank

    rank([0], [1], tie_rule)  # type: ignore[arg-type]  # raises for an unknown rule
    if by not in (None, "document"):
        raise ParameterError(f"there are no rows by {by}", "--by", "Give document.")
    if by and intervals:
        raise ParameterError("a document by itself has no interval by documents", "--intervals", "Leave one out.")
    tables = []
    for store in _stores(context, paths):
        ranked = Ranked(store, tie_rule)  # type: ignore[arg-type]
        if k is None:
            chosen = [each for each in (1, 10, 100, 1000) if each <= store.vocabulary]
        elif k == "all":
            chosen = list(range(1, store.vocabulary + 1))
        else:
            chosen = ranked.thresholds(split_numbers(k, "thresholds", "--k"))
        if by:
            about = {"dataset": store.dataset, "model": store.model}
            table = by_document(ranked, chosen)
            tables.append(pd.concat([pd.DataFrame(about, table.index), table], axis=1))
        else:
            table = store_table(ranked, chosen, infinite=True).reindex(columns=list(COLUMNS))
            table = with_intervals(table, ranked) if intervals else table
            tables.append(with_other_units(table, ranked, 0.95 if intervals else None))
        state = "not checked" if store.sampled is None else _checked(store.sampled, store.tokens)
        typer.echo("  ".join([str(store.folder), *filter(None, [_read(store)]), state]), err=True)
        for note in ranked.notes(chosen[0]):
            typer.echo(f"  {note}", err=True)
    put_table(pd.concat(tables, ignore_index=True), out)


@ranks.command()
def export(
    context: typer.Context,
    store: Annotated[Path, typer.Argument(help="One rank store.")],
    out: Out = None,
) -> None:
    """Write the ranks of one store as a table, a row per token (docs/store.md says the columns)."""
    from rbp.store import open_store

    put_table(open_store(store).ranks(), out)


def _read(store: "RankStore") -> str:
    """Say how much of the text was read, and which of its tokens were not scored; "" where neither is known."""
    from rbp.texts.protocol import left_out, without_scores

    about = store.manifest["about"]
    words = left_out(about.get("not_scored", {}))
    parts = [f"not scored: {words}"] if words else []
    if counts := about.get("documents"):
        parts.append(without_scores((counts["scored"], counts["read"])))
    if count := about.get("without_token"):
        parts.append(
            f"{count:,} of {store.vocabulary:,} logits belong to no token, and count (not with --vocab tokenizer)"
        )
    if front := store.manifest["key"].get("bos"):
        parts.insert(0, f"{' '.join(front)} before every window")
    if store.read is not None:
        read, of = store.read
        cut = f"{read:,} of {of:,} characters read ({read / of:.1%}), by the protocol {store.protocol['name']}"
        parts.insert(0, "the whole text read" if read == of else cut)
    return "; ".join(parts)


def _checked(sampled: "SampleCheck", tokens: int) -> str:
    differences = (
        "none differs"
        if not sampled.differ
        else f"{sampled.differ:,} differ by rounding, by {sampled.largest:,} at most"
    )
    missed = f"were up to {sampled.unseen:.0%} of the rows wrong, so small a sample could have missed it (5%)"
    return f"checked: {sampled.tokens:,} of {tokens:,} tokens, {differences}; {missed}"


def _paths(context: typer.Context, paths: list[Path] | None) -> list[Path]:
    place: Place = context.find_root().obj
    return paths or [place.runs / "ranks"]


def _stores(context: typer.Context, paths: list[Path] | None) -> "list[RankStore]":
    from rbp.store import open_store, store_folders

    return [open_store(folder) for folder in store_folders(_paths(context, paths))]


def _launched() -> tuple[int, int] | None:
    """Return this process's share of the work if a launcher such as torchrun started several; None if it is alone."""
    place, count = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    return (int(place) + 1, int(count)) if place.isdecimal() and count.isdecimal() and int(count) > 1 else None


def _assigned_gpu() -> str:
    """Return the GPU of this process among its machine's."""
    import torch

    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"


def _shard(text: str) -> tuple[int, int]:
    first, _, count = text.partition("/")
    if not (first.isdecimal() and count.isdecimal()):
        raise ParameterError(f"{text!r} is no shard", "--shard", "Give I/N, such as 1/4.")
    return int(first), int(count)


def put_table(table: "pd.DataFrame", out: Path | None) -> None:
    """Write a table to a .csv or .parquet file; as CSV to standard output, where none is given."""
    if out is None or out.suffix == ".csv":
        _write(table.to_csv(index=False), out)
    elif out.suffix == ".parquet":
        import io

        data = io.BytesIO()
        table.to_parquet(data, index=False)
        _write(data.getvalue(), out)
    else:
        raise ParameterError(f"cannot write {out.name}", "--out", "Give a name that ends in .csv or .parquet.")


def _write(content: str | bytes, out: Path | None) -> None:
    from rbp.io import write_file
    from rbp.store import full_disk

    if out is None:
        typer.echo(content, nl=False)
        return
    with full_disk(out):
        write_file(out, content)
