"""Train a model along its course: AdamW over the rows in their order, saving as it goes; a kill costs some steps.

It trains on one thread, so that the number of cores changes no weight.
"""

import platform
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ladder.architectures import make_model
from ladder.recipe import Course
from ladder.workspace import ABOUT, STATE, Workspace
from rbp.errors import DataError
from rbp.io import folder_beside, swap_in, write_file, write_json
from rbp.io import sha256 as checksum
from rbp.processes import Tell

EVERY = 20.0  # seconds after which a run saves where it stands
CHUNK = 64  # tokens whose logits are in memory at once: 1 MB at a vocabulary of 4096, which stays in the cache


class HeadLoss(torch.autograd.Function):
    """The mean cross-entropy of hidden states [n, d] under an output matrix [V, d], in nats.

    As torch's own on the product, but in chunks whose gradients are made at once: the logits of a batch, the
    largest array of a small model by far, never leave the cache.
    """

    @staticmethod
    def forward(context: Any, hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss; both gradients are made on the way."""
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
        """Return the gradients, times the loss's gradient."""
        d_hidden, d_head = context.saved_tensors
        return gradients[0] * d_hidden, gradients[0] * d_head, None


def loss_of(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of rows [batch, context + 1], in nats: each token but the first is predicted."""
    hidden = model.get_decoder()(input_ids=rows[:, :-1].contiguous()).last_hidden_state
    head = model.get_output_embeddings().weight
    loss: torch.Tensor = HeadLoss.apply(hidden.reshape(-1, hidden.shape[-1]), head, rows[:, 1:].reshape(-1))  # type: ignore[no-untyped-call]
    return loss


def processor(device: torch.device) -> str:
    """Return what computes, by its name and the instructions that PyTorch takes: another one may change last bits."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_cpu_name()}, {torch.backends.cpu.get_cpu_capability()}"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {name.strip(): value.strip() for name, value in named.items()}
    numbers = [f"{name} {fields[name]}" for name in ("cpu family", "model", "stepping") if name in fields]
    return " ".join([fields.get("model name", platform.machine()), f"({', '.join(numbers)})"])


class Run:
    """The training of one model along a course, its state in `folder`.

    rows: the training tokens in the order in which they are read. trunk: a state file and the digest of the course
    that it is of, where the run begins if it has no state of its own: a course that has gone the same way until then.
    """

    def __init__(
        self,
        course: Course,
        rows: npt.NDArray[np.uint16],
        folder: Path,
        device: str = "cpu",
        trunk: tuple[Path, str] | None = None,
    ) -> None:
        self.course, self.rows, self.folder, self.trunk = course, rows, folder, trunk
        self.device = torch.device(device)
        self.steps = course.steps
        if self.steps * course.batch > len(rows):
            fault = f"{len(rows)} rows are too few for {self.steps} steps"
            raise DataError(fault, folder.name, "Make the rows again.")
        self.model = make_model(**course.model).to(self.device).train()
        matrices = [p for p in self.model.parameters() if p.ndim > 1]
        others = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": course.decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=course.betas, fused=True)
        self.losses: list[float] = []
        self.seconds = self.cpu_seconds = 0.0
        self.processors: list[str] = []

    @property
    def done(self) -> int:
        """Return the number of steps taken."""
        return len(self.losses)

    def digest(self) -> str:
        """Return all that determines the weights: a state of another run is not gone on with."""
        return self.course.digest(self.device.type, sha256(self.rows.tobytes()).digest())

    def step(self) -> float:
        """Take one step of AdamW on the next batch; gives its loss, in nats, before the step."""
        size = self.course.batch
        rows = torch.from_numpy(self.rows[self.done * size : (self.done + 1) * size].astype(np.int64)).to(self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self.course.rate(self.done)
        loss = loss_of(self.model, rows)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.course.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())
        return self.losses[-1]

    def train(self, report: Callable[["Run"], None] = lambda run: None, until: int | None = None) -> None:
        """Take all steps that are left (or those until a step), saving every so often and at the end.

        When it saves changes no weight: it is what is lost by a kill. `report` is called at each step.
        """
        last = self.steps if until is None else until
        if (here := processor(self.device)) not in self.processors:
            self.processors.append(here)
        saved = time.perf_counter()
        while self.done < last:
            began, used = time.perf_counter(), time.process_time()
            self.step()
            now = time.perf_counter()
            self.seconds += now - began
            self.cpu_seconds += time.process_time() - used
            report(self)
            if now - saved >= EVERY or self.done == last:
                self.save()
                saved = time.perf_counter()

    def save(self, name: str = STATE) -> None:
        """Write weights, moments and losses to one file, whole or not at all."""
        from safetensors.torch import save

        state = {f"model.{name}": value.contiguous() for name, value in self.model.state_dict().items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{number}.{name}": value for name, value in moments.items()}
        state["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        metadata = {
            "digest": self.digest(),
            "seconds": str(self.seconds),
            "cpu_seconds": str(self.cpu_seconds),
            "processors": "\n".join(self.processors),
        }
        write_file(self.folder / name, save({name: value.cpu() for name, value in state.items()}, metadata))

    def resume(self) -> bool:
        """Take up the state in the folder, or the trunk's; False if there is none, or one of another course."""
        resumed = self._take_up(self.folder / STATE, self.digest())
        return resumed or (self.trunk is not None and self._take_up(*self.trunk))

    def _take_up(self, path: Path, digest: str) -> bool:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("digest") != digest:
                    return False
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (FileNotFoundError, SafetensorError):
            return False
        self.losses = state.pop("losses").tolist()
        self.seconds, self.cpu_seconds = float(metadata["seconds"]), float(metadata["cpu_seconds"])
        self.processors = metadata["processors"].splitlines()
        self.model.load_state_dict({n.removeprefix("model."): v for n, v in state.items() if n.startswith("model.")})
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in state.items():
            if name.startswith("optimizer."):
                _, number, entry = name.split(".")
                moments.setdefault(int(number), {})[entry] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        return True


LAST = 64  # steps whose mean loss is given as the final one


def take_up(run: "Run") -> None:
    """Resume the run where its folder stands. Raises DataError if what it holds is another run's."""
    if not run.resume() and (run.folder / STATE).exists():
        fault = "the folder holds the state of a run of another recipe, text, device or number of steps"
        raise DataError(fault, str(run.folder / STATE), "Give another folder (--out), or remove it.")


def progress(run: "Run", tell: Tell) -> "Callable[[Run], None]":
    """Make a function that tells after each step how far the run is, how fast, and what is left."""
    before, began = run.done, run.seconds
    tokens = run.course.batch * (run.rows.shape[1] - 1)

    def report(run: "Run") -> None:
        speed = (run.done - before) / max(run.seconds - began, 1e-9)
        left = (run.steps - run.done) / speed
        tell(
            f"{run.done:,} of {run.steps:,} steps  loss {np.mean(run.losses[-LAST:]):.3f}  "
            f"{speed * tokens:,.0f} tokens/s  {left // 60:.0f} min {left % 60:.0f} s left"
        )

    return report


def finish(run: "Run", record: dict[str, Any], folder: Path, place: Workspace) -> None:
    """Write the model in half precision, with configuration and tokenizer, and say what the run came to.

    record: what names the run, to which size, tokens, loss (nats, mean of the last steps), cost, processors, versions
    and checksums are added.
    """
    import torch
    from safetensors.torch import save

    from ladder.text import read_tokenizer
    from rbp.extract.extraction import quiet
    from rbp.models.sizes import non_embedding_params

    model = run.model.cpu()
    exact = save({name: value.contiguous() for name, value in model.state_dict().items()})
    tokens = run.steps * run.course.batch * (run.rows.shape[1] - 1)
    record = {
        **record,
        "size": non_embedding_params(model),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": run.steps,
        "tokens": tokens,
        "loss": round(float(np.mean(run.losses[-LAST:])), 4),
        "seconds": round(run.seconds, 1),
        "cpu_seconds": round(run.cpu_seconds, 1),
        "tokens_per_second": round(tokens / run.seconds),
        "device": run.device.type,
        "processors": run.processors,
        "torch": torch.__version__,
        "digest": run.digest(),
        "checksum_float32": sha256(exact).hexdigest(),
    }
    with folder_beside(folder) as new, quiet():
        model.half().save_pretrained(new)
        read_tokenizer(place).save_pretrained(new)
        (new / "generation_config.json").unlink(missing_ok=True)
        record["checksum"] = checksum(new / "model.safetensors")
        swap_in(new, folder)
    write_json(run.folder / ABOUT, record)
