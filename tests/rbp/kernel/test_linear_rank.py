"""Ranks from hidden states: against sorting and float64, however the work is cut, and what is wrong is named.

In one file, since each process that runs some of it compiles the pass over a tile.
"""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import BACKENDS, DTYPES, INTERPRETED, Case, gaussian, has_compiler, ranks, ulp, uneven

from rbp.errors import ParameterError, RankError
from rbp.kernel import blocked, equal_rows, linear_rank
from rbp.kernel import reduction as reduction_module
from rbp.kernel.problem import ieee
from rbp.kernel.reduction import PACK, agrees, reduce_eagerly, reduction

if INTERPRETED:
    from rbp.kernel import tiles, triton_kernel

    tiles.tally.__defaults__ = (64,)  # rows and columns of a tile, of which the cases here have several


@st.composite
def cases(draw):
    """Ragged shapes, ties in plenty (small whole numbers, repeated rows of weight), all options."""
    rows, columns = (70, 300) if INTERPRETED else (140, 2500)
    height = draw(st.sampled_from([1, 2, 16, 127, 128, 129, rows]))
    width = draw(st.sampled_from([1, 2, 17, 96, *([] if INTERPRETED else [1151, 1152, 1153]), columns]))
    d = draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([1, 8]))
    hidden = torch.randint(-spread, spread + 1, (height, d), generator=generator).to(draw(st.sampled_from(DTYPES)))
    weight = torch.randint(-spread, spread + 1, (width, d), generator=generator).to(draw(st.sampled_from(DTYPES)))
    weight = weight[torch.randint(0, width, (width,), generator=generator)]
    vocab = draw(st.none() | st.integers(1, width))
    options = {
        "bias": torch.randint(-9, 9, (width,), generator=generator).float() if draw(st.booleans()) else None,
        "scale": draw(st.sampled_from([1.0, 0.5, 4.0])),
        "softcap": draw(st.none() | st.sampled_from([1.0, 30.0])),
        "vocab": vocab,
        "round_logits": draw(st.sampled_from([None, "bfloat16"])),
    }
    return Case(hidden, weight, torch.randint(0, vocab or width, (height,), generator=generator), options)


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=cases())
def test_counts_and_nll_are_those_of_the_sorted_logits(backend, case):
    got, (greater, equal) = ranks(case, backend), case.by_sorting()
    z, capped = case.logits(), INTERPRETED and case.options["softcap"] is not None  # by another tanh
    if not capped:
        assert got.greater.tolist() == greater.tolist()
        assert got.equal.tolist() == equal.tolist()
        assert got.top.tolist() == z.numpy().argmax(1).tolist()  # the first of several
    lse, truth = z.logsumexp(1), z.gather(1, case.target[:, None])[:, 0]
    if not (capped and case.options["round_logits"]):
        allowed = (8 if INTERPRETED else 4) * ulp(torch.maximum(lse.abs(), (lse - truth).abs()))
        assert ((got.nll.double() - (lse - truth)).abs() <= allowed).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_truth_far_below_the_highest_logit_changes_no_other_row(backend):
    height, far = (150, 70) if INTERPRETED else (2500, 1500)  # in the second of three blocks of rows
    case = gaussian(height, 300, 16, 4)
    before = ranks(case, backend)
    case.hidden[far] *= 500
    case.target[far] = case.logits()[far].argmin()
    got, z = ranks(case, backend), case.logits()
    others = torch.arange(height) != far
    assert torch.equal(got.nll[others], before.nll[others])
    assert torch.equal(got.greater[others], before.greater[others])
    assert got.greater[far] == 299
    exact = z[far].logsumexp(0) - z[far].min()
    assert exact > 100  # whose exponential is beyond float32
    assert torch.isclose(got.nll[far].double(), exact, rtol=1e-6)


#: which the kernels for GPUs do not take; without a second compilation
WIDE = [] if INTERPRETED else [(torch.float64, {"round_logits": "bfloat16", "compiled": False})]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.float32, {}),
        (torch.bfloat16, {"scale": 0.7}),
        (torch.float16, {"softcap": 20.0}),
        *WIDE,
    ],
    ids=str,
)
def test_ranks_lie_where_float64_says_they_can_and_a_target_ties_with_its_equals(backend, dtype, options, monkeypatch):
    """Even where products round one sum in two ways, as some libraries do at the edges of a block."""
    monkeypatch.setattr(torch, "mm", uneven(torch.mm))
    monkeypatch.setattr(np, "matmul", uneven(np.matmul))  # which multiplies for the interpreter
    case = gaussian(90, 1501, 64, 9, dtype)
    bias = torch.randn(1501, generator=torch.Generator().manual_seed(1))
    bias[-1] = bias[0]  # of the three equal rows of weight, one has another bias
    case.options = {"bias": bias.to(dtype)} | options
    got, z = ranks(case, backend), case.logits()
    truth = z.gather(1, case.target[:, None])
    slack = 64 * 2.0**-23 * z.abs().max() + (2**-8 * truth.abs() if "round_logits" in options else 0)
    assert ((z > truth + slack).sum(1) <= got.greater).all()
    assert (got.greater + got.equal <= (z >= truth - slack).sum(1)).all()
    assert (got.equal >= 1).all()
    assert (got.equal[::5] >= 2).all()
    assert (z.gather(1, got.top[:, None]) >= z.amax(1, keepdim=True) - (slack + 2**-8 * z.abs().max())).all()
    assert ((got.greater > 0) | (got.top <= case.target)).all()
    assert ((got.greater > 0) | (got.equal > 1) | (got.top == case.target)).all()


@pytest.mark.skipif(not INTERPRETED, reason="of the kernel by Triton")
def test_launches_of_triton_change_no_count(monkeypatch):
    case = gaussian(150, 300, 40, 5)  # in few bits, so that no product is rounded
    case.hidden, case.weight, case.target[1] = (case.hidden * 4).round() / 4, (case.weight * 64).round() / 64, 299
    one = ranks(case, "triton")
    monkeypatch.setattr(triton_kernel, "LAUNCH", 128)
    other = ranks(case, "triton")
    assert torch.equal(one.greater, other.greater)
    assert torch.equal(one.equal, other.equal)
    assert torch.equal(one.top, other.top)
    assert ((one.nll - other.nll).abs().double() <= 4 * ulp(one.nll)).all()


CPU, INF, NAN = torch.device("cpu"), float("inf"), float("nan")


def arguments(rows=5, columns=20, d=4):
    generator = torch.Generator().manual_seed(0)
    return {
        "hidden": torch.randn(rows, d, generator=generator),
        "weight": torch.randn(columns, d, generator=generator),
        "target": torch.arange(rows),
        "bias": torch.zeros(columns),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "index", "value", "row", "says"),
    [
        ("hidden", (3, 1), NAN, 3, "the hidden state holds NaN"),
        ("weight", (19, 0), NAN, 0, "the output embedding holds NaN"),
        ("bias", (7,), NAN, 0, "the output embedding holds NaN"),
        ("hidden", (2, slice(2)), torch.tensor([INF, -INF]), 2, "infinite values or an overflow"),
    ],
)
def test_nan_is_an_error_that_names_the_row(backend, name, index, value, row, says):
    given = arguments()
    given[name][index] = value
    with pytest.raises(RankError, match=says) as caught:
        linear_rank(**given, backend=backend)
    assert caught.value.row == row
    assert pickle.loads(pickle.dumps(caught.value)).row == row  # noqa: S301


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinite_logits_are_counted_like_any_other(backend):
    given = arguments()
    given["bias"] = torch.zeros(20).index_fill(0, torch.tensor([3, 17]), -INF)
    got = linear_rank(**given, backend=backend)
    assert (got.greater[3], got.equal[3], got.nll[3]) == (18, 2, INF)
    got = linear_rank(**given | {"bias": -given["bias"]}, backend=backend)
    assert (got.greater[3], got.equal[3]) == (0, 2)
    with pytest.raises(RankError, match=r"\+inf"):
        _ = got.nll


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"hidden": torch.zeros(5, 3)}, "hidden, weight"),
        ({"target": torch.tensor([0, 1, 20, 3, 4])}, "target, row 2"),
        ({"target": torch.tensor([0, 1, 2, -100, 4])}, "target, row 3"),
        ({"vocab": 4}, "target, row 4"),
        ({"softcap": -1.0}, "scale, softcap"),
        ({"equal": equal_rows(torch.ones(19, 4), None)}, "equal"),
    ],
)
def test_arguments_that_do_not_fit(change, where):
    with pytest.raises(ParameterError) as caught:
        linear_rank(**(arguments() | change))
    assert caught.value.where == where


def test_the_switches_of_precision_are_off_within_and_back_after():
    given = arguments(200, 3000, 300)
    before, was = linear_rank(**given), torch.get_float32_matmul_precision()
    short = partial(getattr, torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction")
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16):
            after = linear_rank(**given)
        with ieee(CPU), ieee(CPU):
            assert not short()  # a GPU's partial sums
        assert short()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(was)
    assert torch.equal(before.greater, after.greater)
    assert torch.equal(before.nll, after.nll)


SHAPES = [(blocked.ROWS, blocked.TILE)]
compiles = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler: counted plainly")


def changed(change):
    """The pass with its counts and totals changed."""

    def reduce(logits, *others):
        return change(logits, *reduce_eagerly(logits.clone(), *others))

    return reduce


RIGHT = changed(lambda _, n, t, p: (n, t, p))
WRONG = {
    "the last column again": changed(lambda z, n, t, p: (n + PACK * (z[:, -1] > 0), t, p)),
    "one row": changed(lambda z, n, t, p: (n + (torch.arange(len(n)) == len(n) - 1), t, p)),
    "totals": changed(lambda z, n, t, p: (n, t * (1 + 1e-4), p)),
    "names": lambda z, truth, base, name, own: reduce_eagerly(z.clone(), truth, base, name, torch.full_like(own, -1)),
}


@compiles
def test_what_is_compiled_here_is_right():
    compiled = reduction(torch.float32, CPU, SHAPES)
    assert compiled is not reduce_eagerly
    assert agrees(compiled, (37, 1101), torch.float32, CPU)


@pytest.mark.parametrize("after", [RIGHT, WRONG["one row"]], ids=["wrong once", "wrong"])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_code_is_compiled_again_once(wrong, after, tmp_path, monkeypatch, caplog):
    """As code of another processor in the cache."""
    left = [WRONG[wrong], after]
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reduction_module, "_known", {})
    monkeypatch.setattr(reduction_module, "_compiled", lambda *_: left.pop(0))
    (kept := reduction_module._folder() / "kept").mkdir(parents=True)
    for _ in range(2):
        assert reduction(torch.float32, CPU, SHAPES) is (RIGHT if after is RIGHT else reduce_eagerly)
    assert not left
    assert caplog.text.count("is discarded and compiled again") == 1
    assert not kept.exists()
