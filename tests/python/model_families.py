"""Small models of every family in transformers, with random weights, and inputs for them."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

# Settings that make a model small, by the names that configurations use. A configuration's own
# names among them are set.
_SMALL: dict[str, Any] = {
    "vocab_size": 120,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embed_dim": 32,
    "embedding_size": 32,
    "projection_dim": 16,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "ffn_dim": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "d_ff": 64,
    "d_inner": 64,
    "hidden_dim": 64,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_decoder_layers": 2,
    "num_encoder_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "head_dim": 8,
    "d_kv": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "image_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
    "decoder_start_token_id": 1,
    "dropout": 0.0,
}

MOST_PARAMETERS = 60_000_000


def families() -> list[str]:
    """The model types that AutoModel knows."""
    return sorted(MODEL_MAPPING_NAMES)


def shrink(config: Any) -> None:
    """Sets what _SMALL names, also in the parts that are configurations themselves."""
    for name, value in _SMALL.items():
        old = getattr(config, name, None)
        if isinstance(old, (int, float)) and not isinstance(old, bool) and old > value:
            setattr(config, name, value)
    for part in list(vars(config).values()):
        if isinstance(part, transformers.PreTrainedConfig):
            shrink(part)


def small_model(family: str) -> torch.nn.Module:
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family]()
    shrink(config)
    model: torch.nn.Module = transformers.AutoModel.from_config(config).eval()
    size = sum(parameter.numel() for parameter in model.parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size / 1e6:.0f} million parameters: its configuration has other names")
    with torch.no_grad():
        for parameter in model.parameters():
            # Zeros hide errors. A router of zeros finds all experts equal, so that any choice is
            # right.
            if parameter.numel() > 0 and not parameter.any():
                parameter.normal_(std=0.1)
    return model


def _image_size(config: Any) -> int:
    size = getattr(getattr(config, "vision_config", config), "image_size", 64)
    return size if isinstance(size, int) else size[0]


def inputs_of(model: Any) -> dict[str, torch.Tensor]:
    """The inputs, by the name of the model's main input."""
    generator = torch.Generator().manual_seed(1)
    config = model.config
    names = model.main_input_name
    names = [names] if isinstance(names, str) else list(names)
    made: dict[str, torch.Tensor] = {}
    tokens = torch.randint(3, 100, (2, 8), generator=generator)
    for name in names:
        if name == "input_ids":
            made[name] = tokens
        elif name == "pixel_values":
            size = _image_size(config)
            channels = getattr(getattr(config, "vision_config", config), "num_channels", 3)
            made[name] = torch.randn(1, channels, size, size, generator=generator)
        elif name == "input_values":
            made[name] = torch.randn(1, 4000, generator=generator)
        elif name == "input_features":
            features = getattr(config, "num_mel_bins", 80)
            made[name] = torch.randn(1, features, 64, generator=generator)
        else:
            raise ValueError(f"main input {name}")
    if getattr(config, "is_encoder_decoder", False) and "input_ids" in made:
        made["decoder_input_ids"] = tokens[:, :5]
    return made
