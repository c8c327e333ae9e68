"""A small Llama with random weights whose one step serves prompts and running requests alike."""

from __future__ import annotations

import torch
from sizes import Size
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

SEED = 20
# MiniLM's vocabulary, whose tokenizer the service uses, and its [SEP].
VOCABULARY = 30522
END = 102


def make_llama(size: Size) -> LlamaForCausalLM:
    """The same weights in every process."""
    torch.manual_seed(SEED)
    heads = max(size.width // 32, 2)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size.width,
        intermediate_size=size.width * 11 // 4,
        num_hidden_layers=size.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        # Ten times the usual value, so that the text depends on the prompt.
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


class PositionedCache:
    """Keys and values [layer, row, head, position, width]; each row writes at its own positions.

    It has the methods of a cache that transformers' layers call. transformers' StaticCache has one
    position for all rows, but requests that join a running batch have other positions.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> None:
        self._keys, self._values = keys, values
        self._positions = positions[:, None, :, None]

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = self._keys[layer], self._values[layer]
        index = self._positions.expand(-1, key.shape[1], -1, key.shape[3])
        keys.scatter_(2, index, key)
        values.scatter_(2, index, value)
        return keys, values


class Step(nn.Module):
    """Computes the next token of each row and writes its keys and values into the cache.

    tokens and positions are int64 [rows, n]: a prompt, or the one token that came last. What lies
    in the cache behind a row's positions is never looked at, so padding behind a prompt is
    harmless. `last` is int64 [rows], the index of each row's last token. Returns int64 [rows].
    """

    def __init__(self, llama: LlamaForCausalLM) -> None:
        super().__init__()
        self.llama = llama

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        last: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        seen = torch.arange(keys.shape[3], device=tokens.device) <= positions[:, None, :, None]
        states = self.llama.model(
            input_ids=tokens,
            attention_mask=seen,
            position_ids=positions,
            past_key_values=PositionedCache(keys, values, positions),
            use_cache=True,
        ).last_hidden_state
        rows = torch.arange(tokens.shape[0], device=tokens.device)
        return self.llama.lm_head(states[rows, last]).argmax(-1)
