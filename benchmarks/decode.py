#!/usr/bin/env python3
"""Measures one token of a Llama of about 1 B parameters with weights of 16, 8 and 4 bits, with
hpu_backend and with CPU eager, Inductor and, if named, llama.cpp.

Every figure comes from a process of its own; contenders alternate within each round. The output
shows the time of a token over that of our bf16, and the share of the read bandwidth, measured right
before, that reading the bytes of a token (weights, scales, caches) takes. Weights of 8 bits have a
scale for each column, those of 4 bits a scale and a zero for each column and group of 128
(PyTorch's `_weight_int8pack_mm` and `_weight_int4pack_mm_for_cpu`). llama.cpp has formats of its
own (gguf_llama.py) and needs `./dev python -m pip install -r dependencies/llama_cpp.txt`, which
compiles it for some minutes. Raw results go to benchmarks/results/decode.json. All times are CPU
times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gguf_llama
import torch
from cases import LlamaStep
from torch import nn

RESULTS = Path(__file__).resolve().parent / "results/decode.json"
CONTENDERS = ("hpu", "eager", "inductor")
LLAMA_CPP = "llama.cpp"
FORMATS = ("bf16", "int8", "int4")
GROUP = 128
MIN_TOKENS = 5
Figures = dict[str, float]
Token = Callable[[], None]


class Int8Linear(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scales = weight.abs().amax(1).float() / 127
        self.register_buffer("weight", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales.to(weight.dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scales)
        return y.view(*x.shape[:-1], -1)


class Int4Linear(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        groups = weight.float().unflatten(1, (-1, GROUP))
        scale = (groups.amax(2) - groups.amin(2)).clamp(min=1e-6) / 15
        zero = groups.amin(2) + 8 * scale
        numbers = ((groups - zero[..., None]) / scale[..., None]).round().clamp(-8, 7) + 8
        pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        self.register_buffer("weight", pack(numbers.flatten(1).to(torch.int32), 2))
        factors = torch.stack((scale, zero), -1).transpose(0, 1)
        self.register_buffer("factors", factors.to(weight.dtype).contiguous())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(
            x.flatten(0, -2), self.weight, GROUP, self.factors
        )
        return y.view(*x.shape[:-1], -1)


LINEARS = {"int8": Int8Linear, "int4": Int4Linear}


def make_model(bits: str, layers: int) -> nn.Module:
    torch.manual_seed(0)
    model = LlamaStep(layers, 1920, 30, 256, 7680).eval().to(torch.bfloat16)
    for module in [m for m in model.modules() if bits in LINEARS and not isinstance(m, nn.Linear)]:
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, LINEARS[bits](child))
    return model


def bytes_of_token(model: nn.Module) -> int:
    """The bytes that a token reads: all weights except the table of embeddings, and the caches."""
    tensors = {name: t for name, t in model.state_dict().items() if "embedding" not in name}
    return sum(t.numel() * t.element_size() for t in tensors.values())


def read_bandwidth() -> float:
    """The bytes that all CPUs of this process read per second: the best of several passes over a
    tensor that no cache holds beside the weights."""
    memory = torch.ones(1 << 28)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    times = []
    for _ in range(5):
        started = time.perf_counter()
        memory.sum()
        times.append(time.perf_counter() - started)
    return memory.numel() * memory.element_size() / min(times)


def llama_cpp_token(bits: str, layers: int) -> tuple[Token, int]:
    """The function that computes a token, and the bytes that a token reads, without its caches."""
    model = make_model("bf16", layers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        size = gguf_llama.write(model, bits, path)
        return gguf_llama.tokens(path), size  # the file stays mapped


def torch_token(contender: str, bits: str, layers: int) -> tuple[Token, int]:
    """The function that computes a token, and the bytes that a token reads."""
    device = "hpu" if contender == "hpu" else "cpu"
    if device == "hpu":
        import habana_frameworks.torch  # noqa: F401
    model = make_model(bits, layers)
    size = bytes_of_token(model)
    model = model.to(device)
    inputs = [torch.tensor([[42]]).to(device), torch.tensor([17]).to(device)]
    step = model
    if contender != "eager":
        backend = {"hpu": "hpu_backend", "inductor": "inductor"}[contender]
        step = torch.compile(model, backend=backend)

    def token() -> None:
        step(*inputs)
        if device == "hpu":
            torch.hpu.synchronize()

    return token, size


def measure(contender: str, bits: str, layers: int, seconds: float) -> Figures:
    """Measures in this process."""
    times: list[float] = []
    with torch.no_grad():
        in_torch = contender != LLAMA_CPP
        token, size = (
            torch_token(contender, bits, layers) if in_torch else llama_cpp_token(bits, layers)
        )
        token()
        token()
        bandwidth = read_bandwidth()
        while len(times) < MIN_TOKENS or sum(times) < seconds:
            started = time.perf_counter()
            token()
            times.append(time.perf_counter() - started)
    median = statistics.median(times)
    share = size / median / bandwidth
    return {"token_s": median, "best_s": min(times), "bytes": size, "share": share}


def in_a_process(contender: str, bits: str, options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--one", contender, "--formats", bits]
        command += ["--layers", str(options.layers), "--seconds", str(options.seconds)]
        environment = os.environ | {
            "HPU_CACHE_DIR": f"{cache}/hpu",
            "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{contender} with {bits} weights: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def show(results: dict[str, dict[str, list[Figures]]], contenders: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    def middle(contender: str, bits: str, figure: str) -> float:
        return statistics.median(run[figure] for run in results[contender][bits])

    first = contenders[0]
    formats = list(results[first])
    base = middle(first, formats[0], "token_s")
    table = Table("contender", *(f"{b}: speed, share of bandwidth" for b in formats))
    for contender in contenders:
        cells = [
            f"{base / middle(contender, b, 'token_s'):.2f} x, {middle(contender, b, 'share'):.0%}"
            for b in formats
        ]
        table.add_row(contender, *cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="one token with weights of 16, 8 and 4 bits")
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--contenders", nargs="*", choices=(*CONTENDERS, LLAMA_CPP),
                        default=list(CONTENDERS))  # fmt: skip
    parser.add_argument("--layers", type=int, default=16, help="16: about 1 B parameters")
    parser.add_argument("--seconds", type=float, default=10, help="of tokens in each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=(*CONTENDERS, LLAMA_CPP), help="measure here, print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.formats[0], options.layers, options.seconds)))
        return
    results: dict[str, dict[str, list[Figures]]] = {
        contender: {bits: [] for bits in options.formats} for contender in options.contenders
    }
    for _ in range(options.rounds):
        for bits in options.formats:
            for contender in options.contenders:
                results[contender][bits].append(in_a_process(contender, bits, options))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    show(results, options.contenders)


if __name__ == "__main__":
    main()
