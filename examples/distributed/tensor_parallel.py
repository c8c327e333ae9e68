"""Generates text with a Llama whose layers are spread over two ranks, compiled with hpu_backend,
and compares the tokens with those of one process.

    ./dev python examples/distributed/tensor_parallel.py             starts its ranks itself
    ./dev python -m torch.distributed.run --nproc-per-node 2 examples/distributed/tensor_parallel.py

Each rank has half of the heads and half of the inner features of every layer, so it reads half of
the weights for each token; the ranks add their parts once after the attention and once after the
feed-forward layer. The weights are random. Times are CPU times of the emulated device.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from example_ranks import start
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

import habana_frameworks.torch  # noqa: F401  registers the device and the backend hccl

PROMPT, TOKENS = 8, 24
COLUMNS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
)
ROWS = ("self_attn.o_proj", "mlp.down_proj")


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2000,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval().to("hpu")


def generate(model: LlamaForCausalLM) -> tuple[list[int], float]:
    """The tokens, and the seconds for each of them."""
    model.forward = torch.compile(model.forward, backend="hpu_backend")
    prompt = torch.arange(PROMPT, device="hpu")[None] + 5
    options = {"do_sample": False, "max_new_tokens": TOKENS, "cache_implementation": "static"}
    with torch.no_grad():
        model.generate(prompt, disable_compile=True, **options)
        begin = time.perf_counter()
        tokens = model.generate(prompt, disable_compile=True, **options).cpu()
    return tokens[0, PROMPT:].tolist(), (time.perf_counter() - begin) / TOKENS


def main() -> None:
    rank, ranks = start(__file__)
    model = llama()
    mesh = init_device_mesh("hpu", (ranks,))
    plan = {name: ColwiseParallel() for name in COLUMNS} | {
        name: RowwiseParallel() for name in ROWS
    }
    for layer in model.model.layers:
        parallelize_module(layer, mesh, plan)
    tokens, seconds = generate(model)
    dist.destroy_process_group()
    if rank == 0:
        alone, seconds_alone = generate(llama())
        print(f"{ranks} ranks: {seconds * 1e3:.1f} ms per token; one: {seconds_alone * 1e3:.1f} ms")
        print("tokens:", *tokens)
        assert tokens == alone, f"one process generates {alone}"
        print("one process generates the same tokens")


if __name__ == "__main__":
    main()
