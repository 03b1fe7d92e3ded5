"""The architectures of the ladders: GPT-NeoX as transformers has it, and an LSTM language model.

Weights are drawn by `make_model`, saved by `save_pretrained`, and loaded by transformers' `AutoModelForCausalLM`; the
LSTM's once this module is imported, which registers its class. No code is stored beside weights.
"""

from typing import Any, Literal

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

Architecture = Literal["neox", "lstm"]


def make_model(
    architecture: Architecture,
    layers: int,
    width: int,
    heads: int,
    *,
    vocabulary: int,
    context: int,
    seed: int,
    rotary: float,
) -> Any:
    """Return a causal language model of transformers' kind with random weights, which follow from the seed.

    heads: of attention; an LSTM has none. rotary: the share of a head's dimensions that GPT-NeoX turns by position.
    Input and output embeddings are apart.
    """
    torch.manual_seed(seed)
    tokens: dict[str, Any] = {
        "vocab_size": vocabulary,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "tie_word_embeddings": False,
    }
    if architecture == "neox":
        return GPTNeoXForCausalLM(
            GPTNeoXConfig(
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=4 * width,
                max_position_embeddings=context,
                rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": rotary},
                use_cache=False,
                **tokens,
            )
        )
    return LSTMForCausalLM(LSTMConfig(hidden_size=width, num_hidden_layers=layers, **tokens))


class LSTMConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Configuration of `LSTMForCausalLM`."""

    model_type = "rbp_lstm"
    hidden_size: int = 16
    num_hidden_layers: int = 3
    vocab_size: int = 4096
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02


class LSTMBlock(nn.Module):
    """x + LSTM(norm(x)), then x + feed-forward(norm(x)), of a transformer block's size: 12 width² weights."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.lstm_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.mlp_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map states [batch, tokens, width] to states of the same shape."""
        states = states + self.lstm(self.lstm_norm(states))[0]
        mixed: torch.Tensor = states + self.mlp(self.mlp_norm(states))
        return mixed


class LSTMPreTrainedModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """The base class, which draws weights: of nn.LSTM by its own rule, others as in GPT-NeoX."""

    config_class = LSTMConfig
    base_model_prefix = "model"


class LSTMModel(LSTMPreTrainedModel):
    """Embedding, blocks, norm."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        self.embeddings: nn.Module = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LSTMBlock(config) for _ in range(config.num_hidden_layers))
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        """Return the input embedding."""
        return self.embeddings

    def forward(self, input_ids: torch.Tensor, **options: Any) -> BaseModelOutput:
        """Return hidden states [batch, tokens, width] of tokens [batch, tokens]; the memory begins empty."""
        states = self.embeddings(input_ids)
        for layer in self.layers:
            states = layer(states)
        return BaseModelOutput(last_hidden_state=self.final_norm(states))


class LSTMForCausalLM(LSTMPreTrainedModel):
    """An LSTM language model: blocks of nn.LSTM and feed-forward with norms and residuals."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        self.model = LSTMModel(config)
        self.lm_head: nn.Module = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_output_embeddings(self) -> nn.Module:
        """Return the output matrix."""
        return self.lm_head

    def forward(self, input_ids: torch.Tensor, **options: Any) -> CausalLMOutput:
        """Return logits [batch, tokens, vocabulary] of tokens [batch, tokens]."""
        return CausalLMOutput(logits=self.lm_head(self.model(input_ids).last_hidden_state))


AutoConfig.register(LSTMConfig.model_type, LSTMConfig, exist_ok=True)
AutoModelForCausalLM.register(LSTMConfig, LSTMForCausalLM, exist_ok=True)
