"""Configurations are read as config.json says: what a version of transformers reads otherwise is refused by name."""

import json

import pytest
from tiny import CONFIGS, load, save_model
from transformers import GPTNeoXConfig

from rbp.errors import DataError
from rbp.models.stated import read_differently


@pytest.mark.parametrize(
    ("kind", "stated", "field"),
    [
        ("llama", {"rms_norm_eps": 0.5}, "rms_norm_eps"),
        ("llama", {"rope_theta": 5e5, "rope_parameters": None}, "rope_parameters.rope_theta"),
        ("neox", {"rotary_pct": 0.5}, "rope_parameters.rotary_pct"),
        ("gpt2", {"n_head": 2}, "n_head"),
    ],
)
def test_a_value_that_differs_is_found_under_any_of_its_names(kind, stated, field):
    raw = {**json.loads(CONFIGS[kind].to_json_string(use_diff=False)), **stated}
    assert [name for name, *_ in read_differently(raw, CONFIGS[kind])] == [field]


def test_a_version_that_reads_a_field_otherwise_is_refused_by_name(tmp_path, monkeypatch):
    """transformers 5.2.0 reads partial_rotary_factor 1.0 of GPT-NeoX as 0.25: cross-entropy 3.77 for 3.83."""
    folder, own = save_model(tmp_path / "m", "neox"), GPTNeoXConfig.from_dict.__func__

    def as_of_old(cls, fields, **options):
        made = own(cls, fields, **options)
        (made[0] if isinstance(made, tuple) else made).rope_parameters["partial_rotary_factor"] = 0.125
        return made

    monkeypatch.setattr(GPTNeoXConfig, "from_dict", classmethod(as_of_old))
    with pytest.raises(DataError, match=r"partial_rotary_factor .*reads 0\.125 \(it was saved by 5\."):
        load(folder)
