"""Numeric functions in f32, bf16 and f16, which test_other_cpus.py runs in a process of its own. It
prints one JSON line with those that are wrong."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F
from exact_reference import ExactReference
from torch.utils._pytree import tree_leaves

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo import report

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def tensor(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X, W, V = tensor(13, 40), tensor(40, 24), tensor(40)
IMAGE, KERNEL = tensor(2, 6, 11, 9), tensor(8, 6, 3, 3)
HEADS = [tensor(1, 2, 19, 16), tensor(1, 2, 21, 16), tensor(1, 2, 22, 16)[:, :, :21]]


def with_gradients(function: Any) -> Any:
    """Makes a function that returns the result and the gradients of the mean of its square."""

    def step(*given: torch.Tensor) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_() for x in given]
        y = function(*leaves)
        return [y, *torch.autograd.grad(y.square().mean(), leaves)]

    return step


FORWARD = {
    "product": (lambda x, w: x @ w, X, W),
    "linear, bias and gelu": (lambda x, w, v: F.gelu(F.linear(x, w.t(), v[:24])), X, W, V),
    "batched": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), tensor(3, 7, 33), tensor(3, 9, 33)),
    "vector": (torch.mv, X, V),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1, stride=2), IMAGE, KERNEL),
    "depthwise": (lambda x, w: F.conv2d(x, w[:6, :1], padding=1, groups=6), IMAGE, KERNEL),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w[:6], stride=2), IMAGE, KERNEL),
    "attention": (F.scaled_dot_product_attention, *HEADS),
    "softmax": (lambda x: (x * 3).softmax(-1), X),
    "log_softmax": (lambda x: F.log_softmax(x, 0), X),
    "layer_norm": (lambda x, v: F.layer_norm(x, [40], v, v), X, V),
    "group_norm": (lambda x: F.group_norm(x, 3), IMAGE),
    "rms_norm": (lambda x, v: F.rms_norm(x, [40], v), X, V),
    "variance": (lambda x: torch.var(x, 1), X),
    "sums": (lambda x: (x.sum(0), x.mean(1), x.abs().amax(0)), X),
    "cumsum": (lambda x: x.cumsum(1), X),
    "functions": (lambda x: x.tanh() + x.sigmoid() * x.exp() + x.sin(), X),
    "division": (lambda x, v: x / (v.abs() + 0.5) - (x.abs() + 1).rsqrt(), X, V),
    "whole numbers": (lambda x: ((x * 9).to(torch.int32) * 7 // 3, x > 0.1, x.argmax(1)), X),
    "pooling": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2)), IMAGE),
    "resized": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "casts": (lambda x: x.to(torch.bfloat16).float() + x.to(torch.float16).float(), X),
}
BACKWARD = {
    "a layer": FORWARD["linear, bias and gelu"],
    "a convolution": FORWARD["convolution"],
    "attention": FORWARD["attention"],
    "a norm": FORWARD["layer_norm"],
}


def wrong(function: Any, given: list[torch.Tensor], training: bool) -> str | None:
    """Says what is wrong with the compiled function, or returns None."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    run = with_gradients if training else (lambda f: f)
    with torch.set_grad_enabled(training):
        ours = tree_leaves(run(compiled)(*[x.to("hpu") for x in given]))
        eager = tree_leaves(run(function)(*given))
        exact = ExactReference(run(function), *given)
    for n, (own, other) in enumerate(zip(ours, eager, strict=True)):
        if (own.dtype, own.shape) != (other.dtype, other.shape):
            return f"{own.dtype} {own.shape} instead of {other.dtype} {other.shape}"
        if (excess := exact.excess(n, own, other)) is not None:
            return f"result {n}: {excess}"
    if report().eager_segments:
        return f"runs eagerly: {report().eager_reasons}"
    return None


def main() -> None:
    found, count = {}, 0
    for training, cases in ((False, FORWARD), (True, BACKWARD)):
        for name, (function, *given) in cases.items():
            for dtype in DTYPES:
                text = wrong(function, [x.to(dtype) for x in given], training)
                count += 1
                if text:
                    found[f"{name}, {'training' if training else 'inference'}, {dtype}"] = text
    print(
        json.dumps(
            {
                "wrong": found,
                "cases": count,
                "level": native.torch_module().isa_level(),
                "capability": torch.backends.cpu.get_cpu_capability(),
            }
        )
    )


if __name__ == "__main__":
    main()
