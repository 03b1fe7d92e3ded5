"""A text whose floor is known: drawn from n-grams, of which the distribution of every token is there, exactly.

The working folder of the models that are trained on it (`rbp ladder known`) holds

    drawn-from/      the text of the ladders, in which the n-grams are counted
    rows.npy         what is trained on: rows as long as the models read, each drawn by itself, with nothing before it
    evaluation.npy   more of them, for evaluation
    text.json        how they were drawn, with their checksums
    known/NAME/      what a model makes of the evaluation text: by_document.parquet, record.json

and training/, models/ and tokenizer/ as for other text. Models are measured by the true distribution p of each token,
not by the one token that was drawn: a model that predicts q has the cross-entropy −Σ p ln q, and a rank ≤ k with the
probability that p gives to the k tokens it holds likeliest. So what it has above the floor, 0 or more at every place,
has no noise of the token drawn.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder import floor, ngrams
from ladder.aggregates import write_table
from ladder.making import Line, Making, train
from ladder.ngrams import NGrams
from ladder.paths import DATA, LADDER
from ladder.recipe import KNOWN, Known, read_known, read_ladders
from ladder.workspace import Rows, Workspace, read_record, read_rows, write_rows
from rbp import provenance
from rbp.arrays import Integers
from rbp.errors import DataError
from rbp.io import folder_beside, label, parse_json, swap_in, write_json
from rbp.measurements.counts import THRESHOLDS
from rbp.processes import DONE, Task, Tell

PREDICTIONS = DATA / "predictions" / "floor.toml"
SHIPPED = LADDER / "known"
TEXT, EVALUATION, RECORD, RECORDS, TABLE = (
    "text.json",
    "evaluation.npy",
    "record.json",
    "records.json",
    "by_document.parquet",
)
SOURCE = "source"  # as the n-grams that the text is drawn from stand among the models
_NAMED = ("name", "family", "rung", "budget", "size", "tokens")
_REMEDY = "Make it again: rbp ladder known."


@dataclass(frozen=True)
class Drawing:
    """The models that are trained on drawn text, and the ladders from whose text it is drawn."""

    known: Known
    making: Making
    natural: Making

    def source(self) -> NGrams:
        """Return the n-grams that the text is drawn from: counted in what the ladders read at their largest budget."""
        return ngrams.count(floor.rows_read(self.natural), self.known.order, self.natural.base.text.vocabulary)

    def prepare(self, texts: Path | None) -> None:
        """Draw the text, if it is not there as the recipe asks. texts: the folder of the ladders' corpora, or None."""
        place = self.making.place
        self.natural.prepare(texts)
        counted = _checksum(floor.rows_read(self.natural))
        wanted = {"order": self.known.order, "seed": self.known.seed, "counted": counted}
        drawn = read_record(place / TEXT)
        with suppress(DataError):  # where rows are not there
            if wanted.items() <= drawn.items() and drawn["checksums"] == self._checksums():
                return
        model, random = self.source(), np.random.default_rng(self.known.seed)
        text = self.making.base.text
        for name, count in (("rows.npy", text.tokens // text.context), (EVALUATION, self.known.documents)):
            write_rows(place / name, model.sample(count, text.context + 1, random))
        with folder_beside(place / "tokenizer") as new:
            shutil.copytree(self.natural.place / "tokenizer", new, dirs_exist_ok=True)
            swap_in(new, place / "tokenizer")
        write_json(place / TEXT, {**wanted, "size": model.size, "checksums": self._checksums()})

    def evaluation(self) -> Rows:
        """Read the rows for evaluation. Raises DataError if they are not there, or not as many as the recipe wants."""
        return read_rows(self.making.place / EVALUATION, self.known.documents, self.making.base)

    def _checksums(self) -> list[str]:
        return [_checksum(self.making.place.rows(self.making.base)), _checksum(self.evaluation())]

    def jobs(self, lines: Sequence[Line], device: str) -> list[Task]:
        """Return what is left to be trained or measured of some lines, and of the source."""
        folder = self.making.place / "known"
        todo = [] if (folder / SOURCE / RECORD).is_file() else [Task(SOURCE, measure_source, (self,))]
        left = [line for line in lines if not all(self.is_done(line, tokens) for tokens in line.budgets)]
        return todo + [Task(line.name, run, (self, line, device)) for line in left]

    def is_done(self, line: Line, tokens: int) -> bool:
        """Say whether a finished model is measured, with these weights and on this text."""
        record = read_record(self.making.place / "known" / line.at(tokens) / RECORD)
        about = self.making.about(line, tokens)
        return bool(about) and record == {**about, "evaluation": _checksum(self.evaluation())}


def open_drawing(out: Path, config: Path = KNOWN) -> Drawing:
    """Return the recipe of drawn text, in a working folder. Raises what `read_known` does."""
    known, ladders, base = read_known(config)
    natural = Making(*read_ladders(config.parent / known.ladders), Workspace(out / "drawn-from"))
    drawn = replace(base, text=replace(base.text, tokens=ladders.training.budgets[-1]))
    return Drawing(known, Making(ladders, drawn, Workspace(out), PREDICTIONS), natural)


def _checksum(rows: Rows) -> str:
    return hashlib.sha256(rows.tobytes()).hexdigest()


def run(tell: Tell, drawing: Drawing, line: Line, device: str = "cpu") -> None:
    """Train a line, and measure each of its models as soon as it is finished. A job."""
    import torch

    from rbp.extract.extraction import quiet
    from rbp.extract.models import find_model, load_model

    for tokens in line.budgets:
        train(tell, drawing.making, line._replace(budgets=(tokens,)), device)
        if drawing.is_done(line, tokens):
            continue
        tell("measuring")
        with quiet():
            model = load_model(
                find_model(str(drawing.making.model(line, tokens))), "float32", torch.device("cpu")
            ).model

        def logits(ids: Integers, model: Any = model) -> Any:
            with torch.inference_mode():
                return model(input_ids=torch.from_numpy(ids[None, :-1]), use_cache=False).logits[0]

        _write(drawing, drawing.making.about(line, tokens), measure(drawing.source(), drawing.evaluation(), logits))
    tell(DONE)


def measure_source(tell: Tell, drawing: Drawing) -> None:
    """Measure the source itself: the floor. A job."""
    import torch

    source = drawing.source()

    def logits(ids: Integers) -> Any:
        return torch.from_numpy(np.log(source.distributions(ids, np.arange(1, len(ids)))))

    record = {"name": SOURCE, "family": "ngrams", "rung": str(source.order), "size": source.size, "seed": 0}
    _write(drawing, record, measure(source, drawing.evaluation(), logits))
    tell(DONE)


def measure(source: NGrams, rows: Rows, logits: Callable[[Integers], Any]) -> pd.DataFrame:
    """Measure what a model makes of rows drawn from a source, by document, as sums over the tokens after its first.

    logits: of a row's tokens but its first, given the row; [tokens, V]. Columns document, tokens, nll (−ln q of the
    token drawn), cross_entropy (−Σ p ln q), and for each of THRESHOLDS mass_k (Σ p of the k tokens of largest logits).
    """
    import torch

    ks = [k for k in THRESHOLDS if k <= len(source.first)]
    sums = []
    for ids in rows.astype(np.int64):
        p = torch.from_numpy(source.distributions(ids, np.arange(1, len(ids))))
        log = torch.log_softmax(logits(ids).double(), 1)
        mass = p.gather(1, log.topk(ks[-1], 1).indices).cumsum(1).sum(0)
        nll = -log.gather(1, torch.from_numpy(ids[1:, None])).sum()
        sums.append([len(p), float(nll), -float((p * log).sum()), *mass[torch.tensor(ks) - 1].tolist()])
    columns = ["tokens", "nll", "cross_entropy", *(f"mass_{k}" for k in ks)]
    return pd.DataFrame(sums, columns=columns).astype({"tokens": np.int64}).rename_axis("document").reset_index()


def _write(drawing: Drawing, about: dict[str, Any], table: pd.DataFrame) -> None:
    folder = drawing.making.place / "known" / about["name"]
    with folder_beside(folder) as new:
        write_table(new / TABLE, table)
        write_json(new / RECORD, {**about, "evaluation": _checksum(drawing.evaluation())})
        swap_in(new, folder)


def ship(drawing: Drawing, to: Path) -> list[str]:
    """Put into a folder what was measured of all finished models, as two files; gives their names.

    records.json: a record for each; by_document.parquet: the columns of `measure`, with model. Raises DataError if the
    source is not measured.
    """
    lines = drawing.making.choose([drawing.known.family])
    names = [SOURCE, *(line.at(tokens) for line in lines for tokens in line.budgets if drawing.is_done(line, tokens))]
    place, records, tables = drawing.making.place / "known", [], []
    for name in names:
        try:
            records.append(parse_json((place / name / RECORD).read_bytes()))
            tables.append(pd.read_parquet(place / name / TABLE).assign(model=name))
        except OSError:
            raise DataError(f"{name} is not measured", str(place), _REMEDY) from None
    whole = pd.concat(tables, ignore_index=True)
    write_table(to / TABLE, whole[["model", *whole.columns.drop("model")]])
    write_json(to / RECORDS, {"text": parse_json((drawing.making.place / TEXT).read_bytes()), "models": records})
    return names


def shipped(folder: Path = SHIPPED) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read what `ship` wrote: the models (name, family, rung, budget, size, a row each; source first), and the table.

    Raises DataError where a file is missing or is something else.
    """
    try:
        records = parse_json((folder / RECORDS).read_bytes())["models"]
        models = pd.DataFrame([{c: record.get(c) for c in _NAMED} for record in records])
        table = pd.read_parquet(folder / TABLE)
        wide = table.astype({c: np.float64 for c in table if table[c].dtype == np.float32})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"these are no models of a known floor: {error}", label(folder), _REMEDY) from None
    provenance.note(folder / RECORDS, folder / TABLE)
    return models, wide
