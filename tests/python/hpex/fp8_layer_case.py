"""A linear layer in fp8 computed on the CPU, with PyTorch's own fp8 types and Python's numbers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from training_case import matrix

from habana_frameworks.torch.hpex.experimental import transformer_engine as te
from habana_frameworks.torch.hpex.experimental.transformer_engine.recipe import (
    DelayedScaling,
    Format,
)

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
TYPES = {Format.E4M3: (E4M3, E4M3), Format.E5M2: (E5M2, E5M2), Format.HYBRID: (E4M3, E5M2)}


class Scale:
    """The scale of one tensor: what delayed scaling is, in Python's numbers."""

    def __init__(self, dtype, recipe):
        self.dtype, self.recipe = dtype, recipe
        self.value, self.history = 1.0, []

    def follow(self):
        if not self.history:
            return
        window = self.history[-self.recipe.amax_history_len :]
        amax = max(window) if self.recipe.amax_compute_algo == "max" else window[-1]
        if amax > 0:
            power = math.floor(math.log2(LARGEST[self.dtype] / amax)) - self.recipe.margin
            self.value = 2.0**power

    def rounded(self, x):
        """Returns the numbers of x as fp8 holds them."""
        limit = LARGEST[self.dtype]
        return (x * self.value).clamp(-limit, limit).to(self.dtype).to(x.dtype) / self.value

    def measure(self, x):
        self.history.append(x.abs().max().item())


class Reference:
    """A linear layer in fp8 on the CPU; step() gives result and gradients."""

    def __init__(self, recipe):
        forward, backward = TYPES[recipe.fp8_format]
        self.recipe, self.runs = recipe, 0
        self.x, self.w = Scale(forward, recipe), Scale(forward, recipe)
        self.x_later, self.w_later = Scale(backward, recipe), Scale(backward, recipe)
        self.g = Scale(backward, recipe)

    def step(self, x, w, b, g):
        due = self.runs % self.recipe.interval == 0
        self.runs += 1
        scales = (self.x, self.w, self.x_later, self.w_later, self.g)
        if due:
            for scale in scales:
                scale.follow()
        y = F.linear(self.x.rounded(x), self.w.rounded(w), b)
        g8 = self.g.rounded(g)
        gradients = (g8 @ self.w_later.rounded(w), g8.t() @ self.x_later.rounded(x), g.sum(0))
        if due:
            for scale, tensor in zip(scales, (x, w, x, w, g), strict=True):
                scale.measure(tensor)
        return y, *gradients


def inputs(step, growth=3.0):
    """Tensors that grow from step to step, so that the first scales of a step are wrong."""
    factor = growth**step
    x, g = matrix(8, 16, seed=2 * step) * factor, matrix(8, 4, seed=2 * step + 1) / factor
    return x, g


def layer(**options):
    torch.manual_seed(3)
    made = te.Linear(16, 4, **options)
    with torch.no_grad():
        made.weight.copy_(matrix(4, 16, seed=100))
        if made.bias is not None:
            made.bias.copy_(matrix(4, seed=101))
    return made


def run(made, x, g, recipe, **options):
    x = x.to("hpu").requires_grad_()
    made.zero_grad()
    with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
        y = made(x, **options)
    y.backward(g.to("hpu"))
    return y.detach(), x.grad, made.weight.grad, made.bias.grad


RECIPES = {
    "e4m3": DelayedScaling(fp8_format=Format.E4M3),
    "e5m2": DelayedScaling(fp8_format=Format.E5M2),
    "hybrid": DelayedScaling(fp8_format=Format.HYBRID),
    "margin": DelayedScaling(margin=2),
    "interval": DelayedScaling(interval=2),
    "longest": DelayedScaling(amax_history_len=3, amax_compute_algo="max"),
    "recent": DelayedScaling(amax_history_len=3, interval=2),
}
