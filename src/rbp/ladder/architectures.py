"""The architectures of the ladders: GPT-NeoX and Mamba-2 as transformers has them, and an LSTM language model.

Weights are drawn by `make_model`, saved by `save_pretrained`, and loaded by transformers' `AutoModelForCausalLM`, those
of the LSTM once this module is imported, which registers its class. No code is stored beside weights.

Mamba-2 trains by `MatrixMixer`, its state-space layer as products of matrices ("SSD", arXiv:2405.21060, section 6):
the same weights and the same function as transformers' own, in less memory and time.
"""

from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

Architecture = Literal["neox", "lstm", "mamba2"]
_PAIRED = 32  # tokens whose pairs are multiplied at once: more costs arithmetic, fewer memory for states


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
    """A causal language model of transformers' kind with random weights, which follow from the seed.

    heads: of attention or of Mamba-2's state; an LSTM has none. rotary: the share of a head's dimensions that GPT-NeoX
    turns by position. Input and output embeddings are apart.
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
    if architecture == "lstm":
        return LSTMForCausalLM(LSTMConfig(hidden_size=width, num_hidden_layers=layers, **tokens))
    model = Mamba2ForCausalLM(
        Mamba2Config(
            hidden_size=width,
            num_hidden_layers=layers,
            num_heads=heads,
            head_dim=2 * width // heads,
            state_size=width // 2,
            n_groups=1,
            chunk_size=_PAIRED,
            initializer_range=(3 * width) ** -0.5,  # as nn.Linear draws its own
            pad_token_id=None,
            use_cache=False,
            **tokens,
        )
    )
    return by_matrices(model)


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
        """From and to states [batch, tokens, width]."""
        states = states + self.lstm(self.lstm_norm(states))[0]
        mixed: torch.Tensor = states + self.mlp(self.mlp_norm(states))
        return mixed


class LSTMPreTrainedModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """How weights are drawn: those of nn.LSTM by itself, the others as in GPT-NeoX."""

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
        """The input embedding."""
        return self.embeddings

    def forward(self, input_ids: torch.Tensor, **options: Any) -> BaseModelOutput:
        """Hidden states [batch, tokens, width] of tokens [batch, tokens]; the memory is empty before the first."""
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
        """The output matrix."""
        return self.lm_head

    def forward(self, input_ids: torch.Tensor, **options: Any) -> CausalLMOutput:
        """Logits [batch, tokens, vocabulary] of tokens [batch, tokens]."""
        return CausalLMOutput(logits=self.lm_head(self.model(input_ids).last_hidden_state))


AutoConfig.register(LSTMConfig.model_type, LSTMConfig, exist_ok=True)
AutoModelForCausalLM.register(LSTMConfig, LSTMForCausalLM, exist_ok=True)


def by_matrices(model: Any) -> Any:
    """Let the layers of transformers' Mamba-2 work by `MatrixMixer`; its weights and what it saves stay the same.

    Another model is given back as it is.
    """
    if isinstance(model, Mamba2ForCausalLM):
        for block in model.backbone.layers:
            block.mixer.__class__ = MatrixMixer
    return model


class MatrixMixer(Mamba2Mixer):
    """transformers' mixer of one group, without cache and masks, its state-space layer by `state_space`."""

    def forward(self, hidden_states: torch.Tensor, **options: Any) -> torch.Tensor:
        """From and to states [batch, tokens, width]."""
        batch, tokens, _ = hidden_states.shape
        parts = [self.intermediate_size, self.conv_dim, self.num_heads]
        gate, mixed, steps = torch.split(self.in_proj(hidden_states), parts, dim=-1)
        mixed = functional.silu(causal_convolution(mixed, self.conv1d.weight[:, 0], self.conv1d.bias))
        inputs, keys, queries = torch.split(mixed, [self.intermediate_size, *2 * [self.ssm_state_size]], dim=-1)
        inputs = inputs.reshape(batch, tokens, self.num_heads, self.head_dim)
        steps = functional.softplus(steps + self.dt_bias).clamp(*self.time_step_limit)
        out = state_space(inputs, steps, -self.A_log.exp(), keys, queries, _PAIRED)
        out = (out + self.D[:, None] * inputs).reshape(batch, tokens, -1) * functional.silu(gate)
        out = functional.rms_norm(out, out.shape[-1:], self.norm.weight, self.norm.variance_epsilon)
        return self.out_proj(out)  # type: ignore[no-any-return]


def causal_convolution(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Each channel with its own kernel: inputs [batch, tokens, channels], weight [channels, reach], bias [channels]."""
    padded = functional.pad(inputs.mT, (weight.shape[1] - 1, 0))
    return functional.conv1d(padded, weight[:, None], bias, groups=len(weight)).mT


def state_space(
    inputs: torch.Tensor,
    steps: torch.Tensor,
    rates: torch.Tensor,
    keys: torch.Tensor,
    queries: torch.Tensor,
    chunk: int,
) -> torch.Tensor:
    """The outputs y_t = S_t q_t of the states S_t = exp(steps_t rates) S_{t-1} + steps_t x_t k_tᵀ, S before 0 being 0.

    inputs x: [batch, tokens, heads, p]; steps: [batch, tokens, heads], positive; rates: [heads], negative; keys k and
    queries q: [batch, tokens, n], shared by the heads. Within `chunk` tokens all pairs are multiplied; between chunks
    the state goes on.
    """
    batch, tokens, heads, size = inputs.shape
    if missing := -tokens % chunk:  # a step of 0 changes no state
        inputs, steps, keys, queries = (
            functional.pad(each, (0, 0) * (each.ndim - 2) + (0, missing)) for each in (inputs, steps, keys, queries)
        )
    chunks = inputs.shape[1] // chunk
    moved = (inputs * steps[..., None]).view(batch, chunks, chunk, heads, size).permute(0, 1, 3, 2, 4)
    keys, queries = keys.reshape(batch, chunks, chunk, -1), queries.reshape(batch, chunks, chunk, -1)
    # ln of the decay from the chunk's beginning to each token: [batch, chunks, heads, chunk]
    decay = (steps * rates).view(batch, chunks, chunk, heads).transpose(2, 3).cumsum(-1)
    after = torch.full((chunk, chunk), -torch.inf, dtype=inputs.dtype, device=inputs.device).triu(1)
    pairs = (decay[..., :, None] - decay[..., None, :] + after).exp()
    pairs = pairs * (queries @ keys.mT)[:, :, None]
    out = pairs @ moved
    if chunks > 1:
        left = (decay[..., -1:] - decay).exp()[..., None]
        added = (moved * left).mT.reshape(batch, chunks, heads * size, chunk) @ keys
        added = added.view(batch, chunks, heads, size, -1)
        whole = decay[..., -1].exp()[..., None, None]
        state = torch.zeros_like(added[:, 0])
        states = []
        for i in range(chunks):
            states.append(state)
            state = state * whole[:, i] + added[:, i]
        before = torch.stack(states, 1).flatten(2, 3)
        recalled = (queries @ before.mT).view(batch, chunks, chunk, heads, size).transpose(2, 3)
        out = out + recalled * decay.exp()[..., None]
    return out.transpose(2, 3).reshape(batch, -1, heads, size)[:, :tokens]
