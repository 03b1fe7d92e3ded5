"""Train one rung: AdamW over the rows in their order, saving as it goes; a kill costs no more than some steps.

A rung trains on one thread, so that the number of cores changes no weight; rungs train side by side.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rbp.errors import DataError
from rbp.files import write_file
from rbp.ladder.place import digest
from rbp.ladder.recipe import Recipe, Rung

CHUNK = 64  # tokens whose logits are in memory at once: 1 MB at a vocabulary of 4096, which stays in the cache
STATE = "state.safetensors"


def make_model(rung: Rung, recipe: Recipe, seed: int) -> Any:
    """A GPT-NeoX model, as Pythia's are, with random weights."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(seed)
    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=recipe.text.vocabulary,
            hidden_size=rung.width,
            num_hidden_layers=rung.layers,
            num_attention_heads=rung.heads,
            intermediate_size=4 * rung.width,
            max_position_embeddings=recipe.text.context,
            bos_token_id=0,
            eos_token_id=0,
            tie_word_embeddings=False,
            use_cache=False,
        )
    )


class HeadLoss(torch.autograd.Function):
    """The mean cross-entropy of hidden states [n, d] under an output matrix [V, d], in nats.

    As torch's own on the product, but in chunks whose gradients are made at once: the logits of a batch, the
    largest array of a small model by far, never leave the cache.
    """

    @staticmethod
    def forward(context: Any, hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss; both gradients are made on the way."""
        count = len(targets)
        d_hidden, d_head = torch.empty_like(hidden), torch.zeros_like(head)
        loss = hidden.new_zeros((), dtype=torch.float64)
        for first in range(0, count, CHUNK):
            states, wanted = hidden[first : first + CHUNK], targets[first : first + CHUNK, None]
            logits = states @ head.T
            logits.sub_(logits.amax(1, keepdim=True))
            target = logits.gather(1, wanted)
            shares = logits.exp_()
            total = shares.sum(1, keepdim=True)
            loss += (total.log() - target).sum(dtype=torch.float64)
            shares.div_(total).scatter_add_(1, wanted, torch.full_like(total, -1.0))
            d_hidden[first : first + CHUNK] = shares @ head
            d_head.addmm_(shares.T, states)
        context.save_for_backward(d_hidden / count, d_head / count)
        return (loss / count).to(hidden.dtype)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        """The gradients, times that of the loss."""
        d_hidden, d_head = context.saved_tensors
        return gradients[0] * d_hidden, gradients[0] * d_head, None


def loss_of(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of rows [batch, context + 1], in nats: each token but the first is predicted."""
    hidden = model.get_decoder()(input_ids=rows[:, :-1].contiguous()).last_hidden_state
    head = model.get_output_embeddings().weight
    loss: torch.Tensor = HeadLoss.apply(hidden.reshape(-1, hidden.shape[-1]), head, rows[:, 1:].reshape(-1))  # type: ignore[no-untyped-call]
    return loss


class Run:
    """The training of one rung with one seed, its state in `folder`.

    steps: how many there are in all (default: as many as the rows give).
    """

    def __init__(
        self,
        rung: Rung,
        recipe: Recipe,
        rows: npt.NDArray[np.uint16],
        seed: int,
        folder: Path,
        device: str = "cpu",
        steps: int | None = None,
    ) -> None:
        self.rung, self.recipe, self.rows, self.seed, self.folder = rung, recipe, rows, seed, folder
        self.device = torch.device(device)
        self.steps = recipe.steps if steps is None else steps
        if self.steps * recipe.training.batch > len(rows):
            raise DataError(f"{len(rows)} rows are too few for {self.steps} steps", rung.name, "Make the rows again.")
        self.model = make_model(rung, recipe, seed).to(self.device).train()
        matrices = [p for p in self.model.parameters() if p.ndim > 1]
        others = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": recipe.training.decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=recipe.training.betas, fused=True)
        self.losses: list[float] = []
        self.seconds = 0.0

    @property
    def done(self) -> int:
        """Steps taken."""
        return len(self.losses)

    def digest(self) -> str:
        """All that determines the weights: a state of another run is not gone on with."""
        rows = sha256(self.rows.tobytes()).digest()
        return digest(self.recipe, self.rung, self.seed, self.steps, self.device.type, rows)

    def step(self) -> float:
        """One step of AdamW on the next batch; gives its loss, in nats, before the step."""
        size = self.recipe.training.batch
        rows = torch.from_numpy(self.rows[self.done * size : (self.done + 1) * size].astype(np.int64)).to(self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.rung, self.done, self.steps)
        loss = loss_of(self.model, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.training.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())
        return self.losses[-1]

    def train(self, every: float = 20.0, told: Callable[["Run"], None] = lambda run: None) -> None:
        """Take all steps that are left, saving every so many seconds and at the end; `told` is called at each step.

        When it saves changes no weight: it is what is lost by a kill.
        """
        saved = time.perf_counter()
        while self.done < self.steps:
            began = time.perf_counter()
            self.step()
            now = time.perf_counter()
            self.seconds += now - began
            told(self)
            if now - saved >= every or self.done == self.steps:
                self.save()
                saved = time.perf_counter()

    def save(self) -> None:
        """Write weights, moments and losses to one file, whole or not at all."""
        from safetensors.torch import save

        state = {f"model.{name}": value.contiguous() for name, value in self.model.state_dict().items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{number}.{name}": value for name, value in moments.items()}
        state["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        about = {"digest": self.digest(), "seconds": str(self.seconds)}
        write_file(self.folder / STATE, save({name: value.cpu() for name, value in state.items()}, about))

    def resume(self) -> bool:
        """Take up the state in the folder; False if there is none, or one of another recipe."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.folder / STATE, "pt") as file:
                about = file.metadata() or {}
                if about.get("digest") != self.digest():
                    return False
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (FileNotFoundError, SafetensorError):
            return False
        self.losses = state.pop("losses").tolist()
        self.seconds = float(about["seconds"])
        self.model.load_state_dict({n.removeprefix("model."): v for n, v in state.items() if n.startswith("model.")})
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in state.items():
            if name.startswith("optimizer."):
                _, number, entry = name.split(".")
                moments.setdefault(int(number), {})[entry] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        return True
