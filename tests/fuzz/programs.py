"""Random PyTorch functions for differential tests.

A program is Python source, so that a failing one can be pasted into a test. It is grown by running
every candidate line on CPU tensors: lines that raise or make unusable values are dropped, so all
programs are valid eager PyTorch. Sizes favour 0, 1, odd and prime numbers.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64)
MAX_ELEMENTS = 1 << 15
FLOATS = (torch.float32, torch.float32, torch.float32, torch.bfloat16)
# Beyond this magnitude an exact comparison of sums says nothing.
MAX_MAGNITUDE = 1e4


@dataclass
class Value:
    name: str
    tensor: torch.Tensor
    # Bit-equal on every device: an input, or a copy, selection, minimum ... of such. Only these may
    # reach operations that jump (rounding, comparisons, indices).
    exact: bool


@dataclass
class Program:
    seed: int
    source: str
    inputs: list[torch.Tensor]
    lines: int

    def function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        name = f"<fuzz {self.seed}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source, name, "exec"), scope)
        return scope["f"]


@dataclass
class Grower:
    """Grows one program from a seed."""

    seed: int
    random: random.Random = field(init=False)
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)

    # -- inputs -------------------------------------------------------------------------------
    def shape(self, rank: int | None = None) -> list[int]:
        rank = self.random.randint(0, 4) if rank is None else rank
        sizes = [self.random.choice(SIZES) for _ in range(rank)]
        # An empty tensor says little: keep one size 0 in eight of them.
        if self.random.random() < 0.875:
            sizes = [max(s, 1) for s in sizes]
        while torch.Size(sizes).numel() > MAX_ELEMENTS:
            sizes[self.random.randrange(rank)] = 2
        return sizes

    def data(self, shape: list[int]) -> torch.Tensor:
        kind = self.random.random()
        if kind < 0.8:
            dtype = self.random.choice(FLOATS)
            return torch.randn(shape, generator=self.generator).to(dtype)
        if kind < 0.93:
            dtype = self.random.choice((torch.int64, torch.int32))
            return torch.randint(-9, 10, shape, generator=self.generator).to(dtype)
        return torch.rand(shape, generator=self.generator) < 0.5

    def restride(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same values in another memory layout: transposed, offset, stepped or expanded."""
        kind = self.random.random()
        if tensor.dim() == 0 or kind < 0.6:
            return tensor
        if kind < 0.75:
            order = self.random.sample(range(tensor.dim()), tensor.dim())
            inverse = [order.index(d) for d in range(tensor.dim())]
            return tensor.permute(order).contiguous().permute(inverse)
        if kind < 0.9:
            wide = [s + 2 if d == tensor.dim() - 1 else s for d, s in enumerate(tensor.shape)]
            base = torch.zeros(wide, dtype=tensor.dtype)
            view = base.narrow(-1, 1, tensor.shape[-1])
            return view.copy_(tensor)
        base = torch.zeros([2 * s for s in tensor.shape], dtype=tensor.dtype)
        view = base[tuple(slice(None, None, 2) for _ in tensor.shape)]
        return view.copy_(tensor)

    # -- choosing -----------------------------------------------------------------------------
    def pick(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        # Later values are likelier, so that programs become deep.
        candidates = [v for v in self.values if accept(v)]
        if not candidates:
            return None
        index = max(self.random.randrange(len(candidates)) for _ in range(2))
        return candidates[index]

    def pick_float(self, rank: int = 0) -> Value | None:
        return self.pick(lambda v: v.tensor.is_floating_point() and v.tensor.dim() >= rank)

    def dim(self, value: Value) -> int:
        return self.random.randrange(-value.tensor.dim(), value.tensor.dim())

    # -- growing ------------------------------------------------------------------------------
    def add(self, expression: str, exact: bool) -> bool:
        """Runs the line; keeps it if its value is usable."""
        scope = {v.name: v.tensor for v in self.values}
        try:
            result = eval(expression, {"torch": torch, "F": torch.nn.functional}, scope)
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
            return False
        if (
            not isinstance(result, torch.Tensor)
            or result.numel() > MAX_ELEMENTS
            or result.dim() > 5
        ):
            return False
        if result.is_complex() or result.dtype in (torch.float64, torch.float16):
            return False
        # `not <=` also catches NaN.
        if result.is_floating_point() and result.numel() > 0:
            usable = bool(result.abs().max() <= MAX_MAGNITUDE)
        else:
            usable = True
        if not usable:
            return False
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.values.append(Value(name, result, exact))
        return True

    def grow(self, length: int) -> Program:
        from operations import OPERATIONS

        inputs = []
        for i in range(self.random.randint(1, 3)):
            tensor = self.restride(self.data(self.shape()))
            inputs.append(tensor)
            self.values.append(
                Value(f"x{i}", tensor.clone(memory_format=torch.preserve_format), True)
            )
            # What the program computes must see the strides of the input.
            self.values[-1].tensor = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype
            ).copy_(tensor)
        attempts = 0
        while len(self.lines) < length and attempts < 40 * length:
            attempts += 1
            proposal = self.random.choice(OPERATIONS)(self)
            if proposal is not None:
                self.add(*proposal)
        computed = [v for v in self.values if v.name.startswith("v")] or self.values
        count = min(len(computed), self.random.randint(1, 3))
        outputs = [computed[-1], *self.random.sample(computed, count - 1)]
        parameters = ", ".join(f"x{i}" for i in range(len(inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        returned = ", ".join(v.name for v in outputs)
        source = f"def f({parameters}):\n{body}    return ({returned},)\n"
        return Program(self.seed, source, inputs, len(self.lines))


def random_program(seed: int, length: int = 12) -> Program:
    """The program of a seed: always the same one."""
    return Grower(seed).grow(1 + seed % length)
