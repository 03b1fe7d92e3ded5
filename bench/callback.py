"""`python -m bench.callback`: what `RankCallback` costs in training, beside the Trainer's own evaluation and a step.

A model of Pythia-14M's shape with random weights, on the CPU. The callback and `Trainer.evaluate` read the same texts,
each in one row; a step trains on as many rows as the Trainer evaluates at once. All run in turn, once a round.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    PrinterCallback,
    Trainer,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    default_data_collator,
)

from bench.common import circumstances, in_turn, spread, title, write
from bench.extraction import SHAPES, make
from rbp.integrations.transformers import RankCallback
from rbp.ranks.corpora import open_corpus
from rbp.ranks.extraction import quiet
from rbp.ranks.models import find_model, load_tokenizer

TOKENS, BATCH = 256, 8  # of each text; rows at a time
OURS, EVALUATION, STEP = "RankCallback", "Trainer.evaluate", "a training step"


def measured(rounds: int, documents: int) -> dict[str, Any]:
    """The seconds of each way, as ratios to the Trainer's evaluation and to a step."""
    with TemporaryDirectory() as place, quiet():
        folder, corpus = make(Path(place), SHAPES["cpu"]._replace(documents=documents), "cpu")
        tokenizer = load_tokenizer(find_model(str(folder)))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        texts = [tokenizer.decode(tokenizer(text)["input_ids"][:TOKENS]) for text in open_corpus(str(corpus)).documents]
        rows = [tokenizer(text)["input_ids"] for text in texts]
        width = min(map(len, rows))
        rows = [row[:width] for row in rows]  # of one length, as a batch without padding is
        data = Dataset.from_dict({"input_ids": rows, "labels": rows})
        arguments = TrainingArguments(
            str(Path(place) / "out"),
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            prediction_loss_only=True,
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
        )
        trainer = Trainer(model, arguments, data_collator=default_data_collator, train_dataset=data, eval_dataset=data)
        trainer.remove_callback(PrinterCallback)
        optimizer, batch = trainer.create_optimizer(), next(iter(trainer.get_train_dataloader()))
        callback, control = RankCallback(texts, every=1), TrainerControl()
        state = TrainerState(global_step=1, max_steps=2)
        callback.on_train_begin(arguments, state, control, model=model, processing_class=tokenizer)

        def step() -> None:
            with torch.enable_grad():
                trainer.compute_loss(model.train(), dict(batch)).backward()
                optimizer.step()
                model.zero_grad()

        ways = {OURS: lambda: callback.on_step_end(arguments, state, control), EVALUATION: trainer.evaluate, STEP: step}
        seconds = in_turn(ways, rounds, "cpu")
    beside = [{"way": OURS, "beside": other} | spread(seconds[OURS], seconds[other]) for other in (EVALUATION, STEP)]
    steps = {"documents": documents, "tokens_of_each": width, "rows_of_a_step": BATCH}
    return circumstances("cpu") | steps | {"rounds": rounds, "rows": beside}


def main() -> None:
    """Measure, print, and write the file if one is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--documents", type=int, default=32)
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    results = measured(given.rounds, given.documents)
    print(f"{title(results)}: {given.documents} texts of {results['tokens_of_each']} tokens")
    for row in results["rows"]:
        span = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        print(f"{row['way']} takes {row['seconds']:.2f} s, {row['ratio']:.2f} ({span}) times {row['beside']}")
    if given.json:
        write(results, given.json)


if __name__ == "__main__":
    main()
