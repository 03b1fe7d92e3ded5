"""Problems drawn by hypothesis, which a GPU machine may lack: `make gpu` uses the others."""

import torch
from hypothesis import strategies as st
from ranking_cases import DTYPES, INTERPRETED, Case


@st.composite
def cases(draw: st.DrawFn) -> Case:
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
