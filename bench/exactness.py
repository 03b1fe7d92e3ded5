"""Check that ranks are exact: every backend of a device against float64, on problems drawn on it."""

import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bench import common
from bench.ranking import Shape
from rbp.choices import Backend
from rbp.kernel import linear_rank

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rbp" / "kernel"))

from ranking_cases import Case, gaussian

HALF = [torch.bfloat16, torch.float16]
TIES = 3  # `gaussian` gives every fifth target so many equal rows of weight, the first and the last among them


class Question(NamedTuple):
    """A ranking whose answer is known.

    whole: of small whole numbers, which no product rounds: counts must equal float64's. Otherwise they must lie
    where float64 says that sums in float32 can.
    """

    shape: Shape
    dtype: torch.dtype
    backend: Backend = "auto"
    options: dict[str, Any] = {}  # noqa: RUF012 (none is written to)
    whole: bool = False

    @property
    def chosen(self) -> Backend:
        """Return the backend, which "auto" takes on a GPU; on a CPU triton's interpreter runs it."""
        if self.backend != "auto":
            return self.backend
        return "tiles" if self.dtype == torch.float32 else "triton"

    @property
    def name(self) -> str:
        """Describe what is asked, in one line."""
        size, kind = " × ".join(map(str, self.shape)), str(self.dtype).removeprefix("torch.")
        options = [f"{name} {value}" for name, value in self.options.items()]
        return ", ".join([self.chosen, kind, size, *options, *(["whole numbers"] if self.whole else [])])


NARROW, WIDE, LARGE = Shape(1000, 768, 50304), Shape(500, 4096, 128256), Shape(250, 2048, 262144)


def questions(tiny: bool) -> list[Question]:
    """List what is asked on a GPU, the most important first; tiny: of the kernel by its interpreter."""
    ragged, small = Shape(150, 75, 701), Shape(40, 40, 300)
    others = [Question(small, dtype, whole=True) for dtype in (torch.float32, *HALF)]
    others += [Question(small, torch.bfloat16, options={"vocab": 257, "scale": 0.5, "biased": True}, whole=True)]
    others += [Question(small, torch.bfloat16, options={"round_logits": "bfloat16"}, whole=True)]
    others += [Question(ragged, dtype) for dtype in ([torch.float32] if tiny else [torch.float32, *HALF])]
    others += [Question(ragged, torch.bfloat16, options={"softcap": 30.0, "vocab": 650})]
    others += [Question(small, dtype, "tiles", whole=True) for dtype in HALF]
    others += [Question(ragged, torch.float32, options={"softcap": 30.0, "vocab": 650, "round_logits": "bfloat16"})]
    if tiny:
        return others
    first = [Question(shape, dtype) for shape in (NARROW, WIDE, LARGE) for dtype in (torch.float32, *HALF)]
    others += [Question(Shape(3000, 200, 5000), dtype, whole=True) for dtype in (torch.float32, *HALF)]
    others += [Question(NARROW, torch.bfloat16, options={"vocab": 50277})]  # as Pythia's is padded
    others += [Question(Shape(250, 2304, 256000), torch.bfloat16, options={"softcap": 30.0})]  # as Gemma 2's
    others += [Question(NARROW, torch.bfloat16, backend) for backend in ("tiles", "blocked", "reference")]
    others += [Question(NARROW, torch.float32, "triton"), Question(WIDE, torch.bfloat16, "tiles")]
    return [*first, *others, Question(NARROW, torch.float64, "blocked")]


def part(tiny: bool) -> list[common.Question]:
    """List all questions, as a part of `bench.gpu`."""
    device = "cpu" if tiny else "cuda"
    return [common.Question(question.name, partial(compare, question, device)) for question in questions(tiny)]


def compare(question: Question, device: str) -> dict[str, Any]:
    """Compare the ranks with ranks by float64.

    wrong: positions whose counts float64 does not allow; differ: the share whose counts are not float64's; nll_error:
    the largest error of −ln p, in nats; failed: what must not be, in words.
    """
    case = _case(question, device)
    got = linear_rank(case.hidden, case.weight, case.target, backend=question.chosen, **case.options)
    z = case.logits()
    truth = z.gather(1, case.target[:, None])
    greater, equal = (z > truth).sum(1), (z == truth).sum(1)
    other = (got.greater != greater) | (got.equal != equal)
    slack = _slack(case, truth)
    least, most = (z > truth + slack).sum(1), (z >= truth - slack).sum(1)
    wrong = other if question.whole else (got.greater < least) | (got.greater + got.equal > most)
    nll = z.logsumexp(1) - truth[:, 0]
    error = (got.nll.double() - nll).abs()
    counts = {"wrong": int(wrong.sum()), "untied": 0 if question.whole else int((got.equal[::5] < _ties(case)).sum())}
    counts["nll_wrong"] = int((error > 2 * slack[:, 0] + 1e-6 * nll.clamp(min=1)).sum())
    failed = [f"{count} of {len(truth)} {name}" for name, count in counts.items() if count]
    return {
        **counts,
        "differ": float(other.double().mean()),
        "nll_error": float(error.max()),
        "failed": failed,
    }


def _case(question: Question, device: str) -> Case:
    rows, d, vocabulary = question.shape
    options = {name: value for name, value in question.options.items() if name != "biased"}
    on_device: dict[str, Any] = {"generator": torch.Generator(device).manual_seed(d), "device": device}
    if question.whole:  # few values, so ties in plenty; some rows of weight twice
        hidden = torch.randint(-8, 9, (rows, d), **on_device)
        weight = torch.randint(-8, 9, (vocabulary, d), **on_device)
        weight = weight[torch.randint(0, vocabulary, (vocabulary,), **on_device)]
        target = torch.randint(0, options.get("vocab", vocabulary), (rows,), **on_device)
        case = Case(hidden.to(question.dtype), weight.to(question.dtype), target, options)
    else:
        case = gaussian(rows, vocabulary, d, d, question.dtype, device)
        case.target %= options.get("vocab", vocabulary)
        case.options = options
    if "biased" in question.options:
        options["bias"] = torch.randint(-9, 9, (vocabulary,), **on_device).float()
    return case


def _slack(case: Case, truth: torch.Tensor) -> torch.Tensor:
    """Bound how far a sum in float32 may lie from float64's, [T, 1], by the norms of what is multiplied."""
    norms = case.hidden.double().norm(dim=1, keepdim=True) * case.weight.double().norm(dim=1).max()
    slack = case.hidden.shape[1] * 2.0**-23 * norms * case.options.get("scale", 1.0)
    slack = slack + 2.0**-20 * (case.options.get("softcap") or 0.0)
    return slack + (2.0**-8 * truth.abs() if case.options.get("round_logits") else 0.0)


def _ties(case: Case) -> int:
    """Count the rows of weight that equal the first one."""
    return TIES - (case.options.get("vocab") is not None)
