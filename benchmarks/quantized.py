#!/usr/bin/env python3
"""Measures models quantised by PyTorch 2 export (int8 activations and weights) beside their f32
form and ONNX Runtime's static int8 of the same model.

Every figure comes from a process of its own; contenders alternate within each round. A figure is
the CPU time of a call, summed over all threads, the best of many calls, so that other load on the
machine does not count. Prints ratios of the medians over the rounds: how many times as long the
other contender takes. Needs torchao (quantizer) and, for its column, onnxruntime.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CONTENDERS = ("int8", "f32", "onnxruntime")
CALLS = 30

Case = tuple[nn.Module, torch.Tensor]


def _conv(channels: int, size: int) -> Callable[[], Case]:
    def make() -> Case:
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers), torch.randn(1, channels, size, size)

    return make


def _mlp(rows: int, width: int) -> Callable[[], Case]:
    def make() -> Case:
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers), torch.randn(rows, width)

    return make


def _resnet() -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = ResNetForImageClassification(ResNetConfig())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(pixel_values=x).logits

    return Logits(), torch.randn(1, 3, 224, 224)


class EncoderLayer(nn.Module):
    """A layer of BERT. BERT's own module makes a mask on the CPU that export keeps there."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        y = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)))
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


def _bert() -> Case:
    return nn.Sequential(*(EncoderLayer(768, 12) for _ in range(12))), torch.randn(1, 128, 768)


CASES: dict[str, Callable[[], Case]] = {
    "linear 128x768": _mlp(128, 768),
    "conv 64x56": _conv(64, 56),
    "conv 256x14": _conv(256, 14),
    "resnet50 b1": _resnet,
    "bert-base b1 s128": _bert,
}


def quantise(model: nn.Module, x: torch.Tensor) -> nn.Module:
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
    prepared(x)
    return convert_pt2e(prepared)


def on_hpu(model: nn.Module, x: torch.Tensor) -> Callable[[], Any]:
    import habana_frameworks.torch  # noqa: F401

    compiled = torch.compile(model.to("hpu"), backend="hpu_backend")
    on_device = x.to("hpu")

    def call() -> Any:
        result = compiled(on_device)
        torch.hpu.synchronize()
        return result

    return call


def in_onnxruntime(model: nn.Module, x: torch.Tensor) -> Callable[[], Any]:
    import onnxruntime as ort
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"x": x.numpy()}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        plain, int8 = str(Path(folder) / "f32.onnx"), str(Path(folder) / "int8.onnx")
        torch.onnx.export(model, (x,), plain, dynamo=True, input_names=["x"], verbose=False)
        q.quantize_static(plain, int8, Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True)
        options = ort.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = ort.InferenceSession(int8, options, providers=["CPUExecutionProvider"])
    inputs = {"x": x.numpy()}
    return lambda: session.run(None, inputs)


def measure(case: str, contender: str) -> float:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    model, x = CASES[case]()
    model.eval()
    with torch.no_grad():
        if contender == "onnxruntime":
            call = in_onnxruntime(model, x)
        else:
            call = on_hpu(quantise(model, x) if contender == "int8" else model, x)
        for _ in range(3):
            call()
        times = []
        for _ in range(CALLS):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
    return min(times)


def figure(case: str, contender: str) -> float | None:
    """The figure of a process of its own; None where the contender is not available."""
    command = [sys.executable, __file__, "--measure", case, contender]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if run.returncode != 0:
        print(f"{case}, {contender}: {run.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    value: float = json.loads(run.stdout.splitlines()[-1])
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    for case in arguments.only:
        found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for _, contender in itertools.product(range(arguments.rounds), CONTENDERS):
            value = figure(case, contender)
            if value is not None:
                found[contender].append(value)
        if not found["int8"]:
            continue
        ours = statistics.median(found["int8"])
        others = (
            f"{name} {statistics.median(values) / ours:.2f} x"
            for name, values in found.items()
            if name != "int8" and values
        )
        print(f"{case:20} {', '.join(others)}", flush=True)


if __name__ == "__main__":
    main()
