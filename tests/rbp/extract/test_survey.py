"""A sample of the survey of architectures: every rank against the model's own logits.

All of them take minutes: tests/slow/models.py.
"""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from survey import HEADS, VARIANTS, survey


@pytest.mark.parametrize("family", ["gpt2", "opt", "gemma2", "roberta", "mixtral"])
def test_every_rank_is_that_of_the_logits(family, tmp_path):
    found = survey(family, tmp_path)
    assert found.outcome == "exact", found
    assert found.tokens > 200
    assert found.near < 0.1 * found.tokens  # the others are decided


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("an encoder", "sees the tokens that it is asked to predict"),
        ("no padding token", "cannot read a row of"),
        ("no language", "cannot read a row of .*set_default_language"),
    ],
)
def test_what_cannot_be_ranked_is_refused(name, reason, tmp_path):
    family, _, own = next(variant for variant in VARIANTS if variant[1] == name)
    found = survey(family, tmp_path, name, **own)
    assert found.outcome == "refused"
    assert re.search(reason, found.reason)


ROPES = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 50},
    "llama3": {
        "factor": 4.0,
        "original_max_position_embeddings": 50,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}
FIELDS = {
    "num_key_value_heads": st.sampled_from([1, 2, HEADS]),
    "tie_word_embeddings": st.booleans(),
    "rope_parameters": st.sampled_from(
        [{"rope_type": kind, "rope_theta": 1e4, **more} for kind, more in ROPES.items()]
    ),
    "rms_norm_eps": st.sampled_from([1e-12, 1e-5, 1.0]),
    "attention_bias": st.booleans(),
    "hidden_act": st.sampled_from(["silu", "gelu", "relu"]),
    "sliding_window": st.sampled_from([1, 16, 64, 4096]),
    "final_logit_softcapping": st.sampled_from([None, 0.5, 30.0]),
    "attn_logit_softcapping": st.sampled_from([None, 5.0, 50.0]),
    "logit_scale": st.sampled_from([0.0625, 1.0, 7.0]),
    "logits_scaling": st.sampled_from([0.5, 1.0, 16.0]),
    "num_local_experts": st.sampled_from([2, 3, 4]),
    "vocab_size": st.sampled_from([301, 320, 1153]),
}
OF = {
    "llama": ("attention_bias", "hidden_act", "rms_norm_eps"),
    "qwen2": ("sliding_window", "rms_norm_eps"),
    "mistral": ("sliding_window", "hidden_act"),
    "gemma2": ("sliding_window", "final_logit_softcapping", "attn_logit_softcapping"),
    "cohere": ("logit_scale", "attention_bias"),
    "granite": ("logits_scaling", "attention_bias"),
    "mixtral": ("num_local_experts", "sliding_window"),
    "olmo2": ("attention_bias", "rms_norm_eps"),
}
COMMON = ("num_key_value_heads", "tie_word_embeddings", "rope_parameters", "vocab_size")


@pytest.mark.slow
@settings(max_examples=60, phases=[Phase.generate])  # a smaller example tells no more, and takes minutes
@given(
    st.sampled_from(list(OF)).flatmap(
        lambda family: st.fixed_dictionaries(
            {"family": st.just(family), **{name: FIELDS[name] for name in (*COMMON, *OF[family])}}
        )
    )
)
def test_whatever_a_configuration_says_the_ranks_are_exact(drawn):
    with tempfile.TemporaryDirectory() as folder:
        found = survey(folder=Path(folder), **drawn)
    note(str(found))
    assert found.outcome in ("exact", "not built")
