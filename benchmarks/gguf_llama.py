"""The decoding case in llama.cpp: the same sizes and weights in its file format, and its tokens.

Weights of 8 and 4 bits are in its own formats, Q8_0 and Q4_0, with a scale for each 32 along a
column. Its rotary positions pair other elements than ours, which is the same work with other
numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from cases import LlamaStep

_TYPES = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
_FIRST_POSITION = 17


def write(model: LlamaStep, bits: str, path: Path) -> int:
    """Writes the model; returns the bytes of it that a token reads."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    kind = GGMLQuantizationType[_TYPES[bits]]
    layers, width, length = len(model.q), model.head.in_features, model.cos.shape[0]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(length)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(model.gate[0].out_features)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_rope_dimension_count(model.size)
    writer.add_layer_norm_rms_eps(torch.finfo(torch.float32).eps)
    writer.add_vocab_size(model.head.out_features)
    writer.add_tokenizer_model("none")
    read = 0

    def add(name: str, weight: torch.Tensor, as_kind: GGMLQuantizationType) -> int:
        data = quants.quantize(weight.detach().float().numpy(), as_kind)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=as_kind)
        return int(data.nbytes)

    add("token_embd", model.embedding.weight, kind)  # a token reads one row of it
    whole = GGMLQuantizationType.F32
    for i in range(layers):
        parts = {"attn_q": model.q, "attn_k": model.k, "attn_v": model.v, "attn_output": model.out,
                 "ffn_gate": model.gate, "ffn_up": model.up, "ffn_down": model.down}  # fmt: skip
        read += sum(add(f"blk.{i}.{name}", part[i].weight, kind) for name, part in parts.items())
        read += add(f"blk.{i}.attn_norm", model.norms[2 * i].weight, whole)
        read += add(f"blk.{i}.ffn_norm", model.norms[2 * i + 1].weight, whole)
    read += add("output_norm", model.norms[-1].weight, whole)
    # The head has 8 or 4 bits, as ours.
    read += add("output", model.head.weight, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def tokens(path: Path) -> Callable[[], None]:
    """A function that computes one token per call, at positions that a cache of the file's length
    holds."""
    import llama_cpp

    threads = len(os.sched_getaffinity(0))
    llama = llama_cpp.Llama(str(path), n_ctx=0, n_threads=threads, verbose=False)
    llama.eval([42] * _FIRST_POSITION)

    def token() -> None:
        if llama.n_tokens + 1 >= llama.n_ctx():
            llama.reset()
            llama.eval([42] * _FIRST_POSITION)
        llama.eval([42])

    return token
