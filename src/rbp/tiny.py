"""`python -m rbp.tiny`: train the very small language model of the chapter on ranking, in a few minutes on a CPU.

Its text is the project's own, frozen under data/tiny by `python -m rbp.tiny --freeze`. The model is no good at
anything. It is there so that a chapter can rank the tokens of a real model wherever the book is built.
"""

import argparse
import json
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rbp.files import canonical_json, swap_in, write_file, write_json
from rbp.paths import DATA, ROOT

FOLDER = DATA / "tiny"
END = "<|endoftext|>"
CONTEXT = 256  # tokens that the model reads at once
TOKENS = 1000  # of the tokenizer
ROWS = 1024  # of the embeddings: padded to a multiple of 128, as those of Pythia are
HELD_OUT = 6  # one document of so many is held out

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """How to train: `steps` of `batch` stretches of CONTEXT tokens, the highest learning rate, and the seed."""

    steps: int = 800
    batch: int = 8
    rate: float = 3e-3
    warmup: int = 40
    decay: float = 0.1
    seed: int = 0


def documents(root: Path) -> dict[str, str]:
    """The project's own text by the file it comes from: pages, the prose of chapters, and the package's sources.

    The claims ledger is left out, as it quotes the paper, and so is what is shorter than 500 characters.
    """
    found = {path: path.read_text(encoding="utf-8") for path in [*root.glob("*.md"), *root.glob("book/*.md")]}
    for path in root.glob("notebooks/[0-9]*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found[path] = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for path in root.glob("src/rbp/**/*.py"):
        if "claims" not in path.parts and "tiny" not in path.stem:
            found[path] = path.read_text(encoding="utf-8")
    named = {path.relative_to(root).as_posix(): text.strip() + "\n" for path, text in found.items()}
    return {name: named[name] for name in sorted(named) if len(named[name]) >= 500}


def freeze(root: Path, folder: Path) -> None:
    """Write the text of the project as it is into train.jsonl and heldout.jsonl: one document a line."""
    text = documents(root)
    for part, wanted in (("train", False), ("heldout", True)):
        chosen = [name for i, name in enumerate(text) if (i % HELD_OUT == HELD_OUT // 2) is wanted]
        lines = [canonical_json({"name": name, "text": text[name]}) + "\n" for name in chosen]
        write_file(folder / f"{part}.jsonl", "".join(lines))


def read(path: Path) -> list[str]:
    """The texts of a frozen file."""
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def make_tokenizer(texts: list[str]) -> Any:
    """A byte-level BPE tokenizer of TOKENS tokens, the end of a text among them: any text can be written in it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    whole: Any = PreTrainedTokenizerFast  # untyped
    return whole(tokenizer_object=raw, bos_token=END, eos_token=END)


def make_model() -> Any:
    """A GPT-NeoX model, as Pythia's are, with random weights."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=ROWS,
            hidden_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=512,
            max_position_embeddings=CONTEXT,
            hidden_dropout=0.1,
            attention_dropout=0.1,
            bos_token_id=0,
            eos_token_id=0,
            tie_word_embeddings=False,
        )
    )


def stream(texts: list[str], tokenizer: Any) -> torch.Tensor:
    """All texts as one row of tokens, each with the end of a text before it."""
    end = tokenizer.eos_token_id
    return torch.tensor([token for ids in tokenizer(texts, verbose=False)["input_ids"] for token in (end, *ids)])


def stretches(tokens: torch.Tensor, recipe: Recipe) -> Iterator[torch.Tensor]:
    """Batches [batch, CONTEXT], endlessly: each pass cuts the tokens at another place, in another order."""
    random = torch.Generator().manual_seed(recipe.seed)
    while True:
        start = int(torch.randint(CONTEXT, (1,), generator=random))
        rows = tokens[start : start + (len(tokens) - start) // CONTEXT * CONTEXT].view(-1, CONTEXT)
        order = torch.randperm(len(rows), generator=random)
        yield from (rows[order[i : i + recipe.batch]] for i in range(0, len(rows), recipe.batch))


def train(model: Any, tokens: torch.Tensor, recipe: Recipe) -> int:
    """Train `model` on `tokens`; gives how many tokens it has read."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=recipe.decay)
    model.train()
    seen = 0
    for step, rows in zip(range(recipe.steps), stretches(tokens, recipe), strict=False):
        done = step / recipe.steps
        rate = recipe.rate * min((step + 1) / recipe.warmup, 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seen += rows.numel()
        if step % 50 == 0 or step == recipe.steps - 1:
            log.info("step %d: loss %.3f", step, loss.item())
    return seen


@torch.no_grad()
def loss_of(model: Any, tokens: torch.Tensor) -> float:
    """The mean cross-entropy, in nats, over stretches of CONTEXT tokens, of every token but the first of each."""
    rows = tokens[: len(tokens) // CONTEXT * CONTEXT].view(-1, CONTEXT)
    model.eval()
    return float(np.mean([model(input_ids=row[None], labels=row[None]).loss.item() for row in rows]))


def make(folder: Path, recipe: Recipe) -> dict[str, float]:
    """Train tokenizer and model on train.jsonl into `folder`/model; gives what the run came to."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)  # so that the number of cores changes nothing; at this size more are no faster
    texts = {part: read(folder / f"{part}.jsonl") for part in ("train", "heldout")}
    tokenizer, model = make_tokenizer(texts["train"]), make_model()
    tokens = {part: stream(some, tokenizer) for part, some in texts.items()}
    seen = train(model, tokens["train"], recipe)
    model = model.half().float()  # as it is saved
    run = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokenizer_tokens": len(tokenizer),
        "train_documents": len(texts["train"]),
        "train_tokens": len(tokens["train"]),
        "heldout_documents": len(texts["heldout"]),
        "heldout_tokens": len(tokens["heldout"]),
        "tokens_read": seen,
        "train_loss": round(loss_of(model, tokens["train"]), 4),
        "heldout_loss": round(loss_of(model, tokens["heldout"]), 4),
        "ln_vocabulary": round(math.log(ROWS), 4),
    }
    new = folder / ".model.tmp"
    model.half().save_pretrained(new)
    tokenizer.save_pretrained(new)
    (new / "generation_config.json").unlink(missing_ok=True)
    swap_in(new, folder / "model")
    write_json(folder / "run.json", run)
    return run


def main() -> None:
    """Train, or with --freeze write the text first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--freeze", action="store_true", help="write the project's text as it is now, then train")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if parser.parse_args().freeze:
        freeze(ROOT, FOLDER)
    for name, value in make(FOLDER, Recipe()).items():
        log.info("%s: %s", name, value)


if __name__ == "__main__":
    main()
