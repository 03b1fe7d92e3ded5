"""The commands `rbp extract` and `rbp ranks`: measure models, and read what was measured."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rbp.errors import DataError, ParameterError
from rbp.names import split_numbers
from rbp.place import Place

if TYPE_CHECKING:
    import pandas as pd

    from rbp.store import RankStore, SampleCheck


ranks = typer.Typer(no_args_is_help=True, help="List, remove, rename, check, summarize and export rank stores.")

Paths = Annotated[list[Path] | None, typer.Argument(help="Rank stores, or folders of them.", show_default="runs/ranks")]
Out = Annotated[
    Path | None, typer.Option(help="Table to write: a .csv or .parquet file; default: CSV on standard output.")
]
Rule = Annotated[str, typer.Option(help="Rule for equal scores: paper (last), strict (first) or expected (the mean).")]

_CORPUS = (
    "Text to rank: wikipedia, humaneval, hotpotqa, auslegal, c4, pile-github; a .txt, .md, .jsonl, .json, .csv, "
    ".tsv or .parquet file, also packed (.gz, .zst); or - for standard input. Give it several times for several texts."
)
_PROTOCOL = (
    "Way to read the text. authors: 1000 shuffled documents, cut to 512 tokens; windows: whole documents, every token "
    "once."
)
_DEFAULT = "authors for the paper's six, windows for other texts"
_BOS = (
    "Token that precedes each window and is not scored. auto: the one that the tokenizer puts before a text, if any; "
    "always: else the tokenizer's BOS token, or else its EOS token; never: none."
)
_SPECIAL = "Reading of special tokens that are written in the text: token (not scored; see --score), or plain text."
_SCORE = (
    "Tokens that are scored besides plain ones, may be given twice. special: special tokens written in the text, and "
    "the tokens after them; first: the first token of each document, after the BOS token."
)
DTYPE = "Data type of weights and hidden states: float32, bfloat16, float16, or float64 where the model computes in it."
_EXACT = " Ranks are exact for these hidden states: logits are summed and compared in float32 (or float64)."
_ROUND = "Data type to which logits are rounded before they are ranked: bfloat16, as a model in bfloat16 gives them."
DEVICE = "Device to compute on: auto, cpu, cuda, cuda:1, …"
OR_SPREAD = f"{DEVICE}; or spread, for a model too large for one GPU: over all, memory and disk (extra devices)."
_IMPORTED = (
    "File that the other program wrote: a .csv or .parquet of columns document, position, token, rank, and logprob or "
    "nll, or what rbp ranks export wrote."
)
_ARGMAX = "Rule by which equal scores were counted: paper (as vLLM's V1 engine does) or strict."
_MODEL = "Model to rank by: a hub id (or id@revision), a folder or a GGUF file; may be given several times."
_BEFORE = "Least number of tokens before each scored one (windows)."
_BACKEND = "Program that counts ranks: auto, reference, blocked, tiles or triton."
_BATCH = "Number of rows read at a time; on the CPU it changes no rank."
_VOCAB = "Logits that count: all, tokenizer (those of its tokens), or the first N."
_SHARD = "Share of the work to do: the I-th of N parts; default under torchrun: the process's own."
_INTERVALS = (
    "Add 95% intervals: for independent tokens (low, high), and with documents, or blocks of one long text, as the "
    "units (document_low, document_high, …)."
)

_TOKENIZER = "Folder with the tokenizer, where the model's folder or GGUF file has none, or an unknown one."
FIELD = "Field of the corpus file that holds the text, default: text; several are joined by newlines."
_PROMPT = (
    "Field of the corpus file that the model reads before each text and that is not scored; --field is then completion "
    "by default. It need not be given for rows with the fields prompt and completion, and without text."
)
PLAN = "Estimate tokens, operations and memory, and the time if the model was ranked before, and rank nothing."

# an option in one of the four groups of `rbp extract --help`
_model, _text, _numbers, _run = (
    partial(typer.Option, rich_help_panel=group) for group in ("Model", "Text", "Numbers", "Run")
)


def extract(
    context: typer.Context,
    model: Annotated[list[str], _model(help=_MODEL)],
    corpus: Annotated[list[str], _text(help=_CORPUS)],
    tokenizer: Annotated[str | None, _model(metavar="FOLDER", help=_TOKENIZER)] = None,
    family: Annotated[str | None, _model(help="Family that the models belong to.")] = None,
    field: Annotated[list[str] | None, _text(help=FIELD)] = None,
    prompt: Annotated[str | None, _text(metavar="FIELD", help=_PROMPT)] = None,
    protocol: Annotated[str | None, _text(help=_PROTOCOL, show_default=_DEFAULT)] = None,
    tokens: Annotated[int | None, _text(help="Number of ranked tokens after which to stop.")] = None,
    length: Annotated[int | None, _text(help="Number of tokens that the model reads at once.")] = None,
    before: Annotated[int | None, _text("--context", help=_BEFORE)] = None,
    bos: Annotated[str, _text(help=_BOS)] = "auto",
    special: Annotated[str, _text(help=_SPECIAL)] = "token",
    score: Annotated[list[str] | None, _text(help=_SCORE)] = None,
    dtype: Annotated[str, _numbers(help=DTYPE + _EXACT)] = "float32",
    vocab: Annotated[str, _numbers(help=_VOCAB)] = "all",
    round_logits: Annotated[str | None, _numbers(help=_ROUND)] = None,
    backend: Annotated[str, _numbers(help=_BACKEND)] = "auto",
    batch: Annotated[int | None, _numbers(help=_BATCH)] = None,
    device: Annotated[str, _run(help=OR_SPREAD)] = "auto",
    out: Annotated[Path | None, _run(help="Folder for the rank stores.", show_default="runs/ranks")] = None,
    shard: Annotated[str | None, _run(metavar="I/N", help=_SHARD)] = None,
    plan: Annotated[bool, _run("--plan", help=PLAN)] = False,
) -> None:
    """Rank the tokens of texts by models, into a rank store for each model and text.

    What was measured before is not measured again. Of texts with a prompt only the completion is ranked.
    """
    from rbp.choices import Settings
    from rbp.texts.corpora import check_corpus
    from rbp.texts.protocol import default_protocol
    from rbp.texts.protocol import protocol as make_protocol

    share, device = _share_of_work(shard, device)
    numbers: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "backend": backend,
        "batch": batch,
        "vocabulary": int(vocab) if vocab.isdecimal() else vocab,
        "round_logits": round_logits,
    }
    settings = Settings(**numbers, fields=tuple(field or ()), prompt=prompt, family=family)
    reading: dict[str, Any] = {
        "name": protocol or default_protocol(corpus),
        "length": length,
        "context": before,
        "tokens": tokens,
        "bos": bos,
        "special": special,
        "score": score or (),
    }
    make_protocol(**reading)  # which refuses what makes no sense
    for text in corpus:
        check_corpus(text, field or ([prompt] if prompt else []))

    typer.echo(f"{', '.join(model)} …", err=True)  # what reads it takes seconds to import
    from rbp.extract.extraction import extract as measure
    from rbp.extract.extraction import extract_on_gpus, gpus, planned, say_on_stderr
    from rbp.extract.plan import plan_lines
    from rbp.models.find import find_model
    from rbp.store import open_store

    say_on_stderr()
    model_files = [find_model(name, tokenizer=tokenizer) for name in model]
    chosen = make_protocol(**reading, configs=[files.config for files in model_files])
    work = model_files, corpus, chosen, out or context.obj.runs / "ranks", settings
    if plan:
        typer.echo("\n".join(plan_lines(planned(*work))))
        return
    if share is None and device in ("auto", "cuda") and len(visible := gpus()) > 1:
        extract_on_gpus(*work, visible)
    for store in measure(*work, share):
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
        labels, key = manifest["about"], manifest["key"]
        state = "" if manifest["complete"] else "  unfinished"
        trained = [f"{name.replace('_', ' ')} {labels[name]}" for name in NAMES if name in labels]
        typer.echo(
            f"{folder}  {', '.join([labels['model'], *trained])} ({labels['family']}, S = {labels['size']:,}) "
            f"on {labels['dataset']}, {key['protocol']['name']} of {key['protocol'].get('length')}, "
            f"{manifest['tokens']:,} tokens, {key['dtype']}, {key['device']}{state}"
        )


@ranks.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help=_IMPORTED)],
    model: Annotated[str, typer.Option(help="Name of the model.")],
    size: Annotated[int, typer.Option(help="Number of parameters without embeddings (S).")],
    vocabulary: Annotated[int, typer.Option(help="Number of tokens that have a logit.")],
    dtype: Annotated[str, typer.Option(help="Data type of the scores that were compared, such as bfloat16.")],
    tie_rule: Annotated[str, typer.Option(help=_ARGMAX)],
    dataset: Annotated[str | None, typer.Option(help="Name of the text.", show_default="the file's name")] = None,
    family: Annotated[str, typer.Option(help="Family that the model belongs to.")] = "unknown",
    engine_version: Annotated[
        str | None, typer.Option(help="Version of the program that ranked, such as 0.11.0.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the rank stores.", show_default="runs/ranks")] = None,
) -> None:
    """Import ranks that another program computed, as a rank store that all commands read."""
    from rbp.measurements.engines import ImportLabels, import_ranks

    labels = ImportLabels(model, dataset or file.stem, family, size, vocabulary, dtype, tie_rule, engine_version)
    place: Place = context.find_root().obj
    typer.echo(str(import_ranks(file, labels, out or place.runs / "ranks")))


@ranks.command()
def rm(
    paths: Annotated[list[Path], typer.Argument(help="Rank stores, or folders of them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """Remove rank stores, after asking. Other files stay."""
    from rbp.store import must_be_stores, remove, store_folders

    folders = store_folders(paths)
    if not yes:
        must_be_stores(folders)
        for folder in folders:
            typer.echo(str(folder), err=True)
        if not typer.confirm(f"Remove {len(folders)} rank store{'s' * (len(folders) > 1)} for good?", err=True):
            raise typer.Exit(1)
    remove(folders)


@ranks.command()
def rename(
    store: Annotated[Path, typer.Argument(help="Rank store to rename.")],
    model: Annotated[str | None, typer.Option(help="New name of the model.")] = None,
    dataset: Annotated[str | None, typer.Option(help="New name of the text.")] = None,
    family: Annotated[str | None, typer.Option(help="New family of the model.")] = None,
) -> None:
    """Rename the model, text or family of a rank store. Its ranks stay as they are."""
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
    model: Annotated[
        str | None, typer.Option(help="Model of the stores, to rank a sample of the tokens again.")
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="Text of the stores, with --model; default: the stores' dataset.")
    ] = None,
    share: Annotated[float, typer.Option(help="Least fraction of the tokens to rank again, with --model.")] = 0.02,
    seed: Annotated[
        str | None, typer.Option(help="Seed of the sample, with --model; default: the store's own.")
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="FOLDER", help=f"{_TOKENIZER} With --model.")] = None,
) -> None:
    """Verify the checksum of every part of rank stores: exit 2 if a part is missing, truncated or altered.

    With --model, also rank a sample of each store's rows again, one row at a time: exit 2 if a rank differs, by more
    than rounding, from the rank among the model's own logits.
    """
    from rbp.store import REDO, open_store, store_folders

    if not 0 < share <= 1:
        raise ParameterError(f"a share cannot be {share}", "--share", "Give more than 0, and at most 1.")
    if model is None and (corpus or seed is not None or tokenizer is not None):
        fault = "a text, a seed or a tokenizer has no use without a model"
        raise ParameterError(fault, "--corpus, --seed, --tokenizer", "Give --model as well.")

    wrong = []
    for folder in store_folders(_paths(context, paths)):
        try:
            problems = open_store(folder).problems()
        except DataError as error:
            problems = [error.what]
        wrong += [f"{folder}: {problem}" for problem in problems]
        typer.echo(f"{folder}  {'; '.join(problems) or 'intact'}")
    if wrong:
        count = "1 problem" if len(wrong) == 1 else f"{len(wrong)} problems, the first"
        raise DataError(f"{count}: {wrong[0]}", None, REDO)
    if model is None:
        return

    from rbp.extract.extraction import verify_store

    for store in _stores(context, paths):
        sampled, rows = verify_store(store, model, corpus or (), share, seed, tokenizer)
        missed = 1 - sampled.tokens / store.tokens
        typer.echo(
            f"{store.folder}  {_checked(sampled, store.tokens)} ({sampled.rows:,} of {rows:,} rows); a single wrong "
            f"token would have been missed with probability {missed:.3f}"
        )


@ranks.command()
def summary(
    context: typer.Context,
    paths: Paths = None,
    k: Annotated[
        str | None, typer.Option(help="Thresholds, with commas, or all.", show_default="1,10,100,1000")
    ] = None,
    tie_rule: Rule = "paper",
    intervals: Annotated[bool, typer.Option("--intervals", help=_INTERVALS)] = False,
    by: Annotated[str | None, typer.Option(help="Unit of a row, instead of a store: document.")] = None,
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
        raise ParameterError("a single document has no interval by documents", "--intervals", "Leave one out.")
    tables = []
    for store in _stores(context, paths):
        ranked = Ranked(store, tie_rule)  # type: ignore[arg-type]
        if k is None:
            chosen = [threshold for threshold in (1, 10, 100, 1000) if threshold <= store.vocabulary]
        elif k == "all":
            chosen = list(range(1, store.vocabulary + 1))
        else:
            chosen = ranked.thresholds(split_numbers(k, "thresholds", "--k"))
        if by:
            labels = {"dataset": store.dataset, "model": store.model}
            table = by_document(ranked, chosen)
            tables.append(pd.concat([pd.DataFrame(labels, table.index), table], axis=1))
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
    store: Annotated[Path, typer.Argument(help="Rank store to export.")],
    out: Out = None,
) -> None:
    """Write the ranks of one store as a table, a row per token (docs/store.md says the columns)."""
    from rbp.store import open_store

    put_table(open_store(store).ranks(), out)


def _read(store: "RankStore") -> str:
    """Say how much of the text was read, and which of its tokens were not scored; "" where neither is known."""
    from rbp.texts.protocol import left_out, without_scores

    labels = store.manifest["about"]
    words = left_out(labels.get("not_scored", {}))
    parts = [f"not scored: {words}"] if words else []
    if counts := labels.get("documents"):
        parts.append(without_scores((counts["scored"], counts["read"])))
    if count := labels.get("without_token"):
        parts.append(
            f"{count:,} of {store.vocabulary:,} logits belong to no token, and count (not with --vocab tokenizer)"
        )
    if front := store.manifest["key"].get("bos"):
        parts.insert(0, f"{' '.join(front)} before every window")
    if store.characters_read is not None:
        read, of = store.characters_read
        cut = f"{read:,} of {of:,} characters read ({read / of:.1%}), by the protocol {store.protocol['name']}"
        parts.insert(0, "the whole text read" if read == of else cut)
    return "; ".join(parts)


def _checked(sampled: "SampleCheck", tokens: int) -> str:
    differences = (
        "no rank differs"
        if not sampled.differ
        else f"{sampled.differ:,} ranks differ by rounding, by at most {sampled.largest:,}"
    )
    if sampled.tokens == tokens:
        return f"checked: all {tokens:,} tokens, {differences}"
    found = f"a fault in {sampled.unseen:.0%} of the rows or more would have been found (95%)"
    return f"checked: {sampled.tokens:,} of {tokens:,} tokens, {differences}; {found}"


def _paths(context: typer.Context, paths: list[Path] | None) -> list[Path]:
    place: Place = context.find_root().obj
    return paths or [place.runs / "ranks"]


def _stores(context: typer.Context, paths: list[Path] | None) -> "list[RankStore]":
    from rbp.store import open_store, store_folders

    return [open_store(folder) for folder in store_folders(_paths(context, paths))]


def _share_of_work(shard: str | None, device: str) -> tuple[tuple[int, int] | None, str]:
    """Return the share of the work to do (None: all), and the device; by `shard`, or as torchrun started the process.

    Raises ParameterError for what is no share, and where each of several processes would spread its model.
    """
    from rbp.choices import check_shard

    if shard is not None:
        first, _, count = shard.partition("/")
        if not (first.isdecimal() and count.isdecimal()):
            raise ParameterError(f"{shard!r} is not a shard", "--shard", "Give I/N, such as 1/4.")
        return check_shard((int(first), int(count))), device
    place, count = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not (place.isdecimal() and count.isdecimal() and int(count) > 1):
        return None, device
    if device == "spread":
        fault = "each of several processes would use all GPUs"
        raise ParameterError(fault, "--device spread", "Start one process, or give another device.")
    if device in ("auto", "cuda"):
        import torch

        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    return (int(place) + 1, int(count)), device


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
