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
MAX_INPUTS = 8
FLOATS = (torch.float32,) * 5 + (torch.bfloat16,) * 2 + (torch.float16,)
INTEGERS = (
    torch.int64,
    torch.int64,
    torch.int32,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
)
SPECIALS = (float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1e-40)
# Beyond this magnitude an exact comparison of sums is meaningless.
MAX_MAGNITUDE = 1e4


@dataclass
class Value:
    name: str
    tensor: torch.Tensor
    # The value is bit-equal on every device: it is an input, or a copy, selection, minimum ... of
    # such values. Only these may be operands of operations that jump (rounding, comparisons,
    # indices).
    exact: bool

    @property
    def is_float(self) -> bool:
        return self.tensor.is_floating_point()

    def storage(self) -> int:
        return self.tensor.untyped_storage().data_ptr()


def octets(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the tensor's storage, as a tensor over the same memory."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


class Snapshot:
    """The memory of some tensors at one moment."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def take(self, tensors: list[torch.Tensor]) -> None:
        """Keeps the memory of tensors that is not kept yet."""
        for tensor in tensors:
            memory = octets(tensor)
            if memory.numel() and memory.data_ptr() not in self._storages:
                self._storages[memory.data_ptr()] = (memory, memory.clone())

    def restore(self) -> None:
        for memory, saved in self._storages.values():
            memory.copy_(saved)

    def copies(self, tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
        """The tensors as they were, with the same strides and offsets; those that shared memory
        share it again."""
        placed: dict[int, torch.UntypedStorage] = {}
        result = []
        for tensor in tensors:
            copy = torch.empty(0, dtype=tensor.dtype, device=device)
            memory = octets(tensor)
            if memory.numel():
                pointer = memory.data_ptr()
                if pointer not in placed:
                    saved = self._storages[pointer][1]
                    placed[pointer] = saved.clone().to(device).untyped_storage()
                copy.set_(placed[pointer], tensor.storage_offset(), tensor.shape, tensor.stride())
            else:
                copy = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device
                )
            result.append(copy)
        return result


def copy_together(tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    snapshot = Snapshot()
    snapshot.take(tensors)
    return snapshot.copies(tensors, device)


@dataclass
class Program:
    seed: int
    source: str
    inputs: list[torch.Tensor]
    lines: int
    special: bool

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
    narrow: torch.dtype | None = None  # the only float type, if given
    random: random.Random = field(init=False)
    special: bool = field(init=False)  # infinities, NaN, zeros and denormals among the elements
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)  # programs may have written to them
    pristine: Snapshot = field(default_factory=Snapshot)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)
        self.special = self.random.random() < 0.1

    # -- inputs -------------------------------------------------------------------------------
    def shape(self, rank: int | None = None) -> list[int]:
        rank = self.random.randint(0, 4) if rank is None else rank
        sizes = [self.random.choice(SIZES) for _ in range(rank)]
        # An empty tensor tests little, so one size 0 in eight is kept.
        if self.random.random() < 0.875:
            sizes = [max(s, 1) for s in sizes]
        while torch.Size(sizes).numel() > MAX_ELEMENTS:
            sizes[self.random.randrange(rank)] = 2
        return sizes

    def floats(
        self, shape: list[int], dtype: torch.dtype | None = None, special: bool = True
    ) -> torch.Tensor:
        tensor = torch.randn(shape, generator=self.generator)
        if special and self.special and tensor.numel():
            for value in self.random.sample(SPECIALS, 3):
                tensor.view(-1)[self.random.randrange(tensor.numel())] = value
        return tensor.to(dtype or self.narrow or self.random.choice(FLOATS))

    def data(self, shape: list[int]) -> torch.Tensor:
        kind = self.random.random()
        if kind < 0.8:
            return self.floats(shape)
        if kind < 0.93:
            dtype = self.random.choice(INTEGERS)
            low = 0 if dtype == torch.uint8 else -9
            return torch.randint(low, 10, shape, generator=self.generator).to(dtype)
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
        if kind < 0.85:
            wide = [s + 2 if d == tensor.dim() - 1 else s for d, s in enumerate(tensor.shape)]
            base = torch.zeros(wide, dtype=tensor.dtype)
            view = base.narrow(-1, 1, tensor.shape[-1])
            return view.copy_(tensor)
        if kind < 0.9:
            d = self.random.randrange(tensor.dim())
            return tensor.narrow(d, 0, min(tensor.shape[d], 1)).expand(tensor.shape)
        base = torch.zeros([2 * s for s in tensor.shape], dtype=tensor.dtype)
        view = base[tuple(slice(None, None, 2) for _ in tensor.shape)]
        return view.copy_(tensor)

    def alias(self) -> torch.Tensor | None:
        """A view of an earlier input, which becomes another input."""
        base = self.random.choice(self.inputs)
        if base.dim() == 0 or base.numel() < 2:
            return None
        d = self.random.randrange(base.dim())
        start = self.random.randrange(base.shape[d])
        forms = (
            lambda: base,
            lambda: base.transpose(0, -1),
            lambda: base.narrow(d, start, base.shape[d] - start),
            lambda: base.select(d, start),
            lambda: base.movedim(d, 0)[::2],
        )
        return self.random.choice(forms)()

    def add_input(self, tensor: torch.Tensor) -> Value:
        self.pristine.take([tensor])
        self.inputs.append(tensor)
        value = Value(f"x{len(self.inputs) - 1}", tensor, True)
        self.values.append(value)
        return value

    def fresh(self, shape: list[int], dtype: torch.dtype, special: bool = True) -> str:
        """The name of a new float input of this shape, for a weight."""
        if len(self.inputs) >= MAX_INPUTS:
            raise ValueError("enough inputs")
        return self.add_input(self.restride(self.floats(shape, dtype, special))).name

    # -- choosing -----------------------------------------------------------------------------
    def pick(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        # Later values are more likely, so that programs become deep.
        candidates = [v for v in self.values if accept(v)]
        if not candidates:
            return None
        index = max(self.random.randrange(len(candidates)) for _ in range(2))
        return candidates[index]

    def pick_float(self, rank: int = 0) -> Value | None:
        return self.pick(lambda v: v.is_float and v.tensor.dim() >= rank)

    def pick_exact_float(self, rank: int = 0) -> Value | None:
        return self.pick(lambda v: v.exact and v.is_float and v.tensor.dim() >= rank)

    def dim(self, value: Value) -> int:
        return self.random.randrange(-value.tensor.dim(), value.tensor.dim())

    # -- growing ------------------------------------------------------------------------------
    def usable(self, result: Any) -> bool:
        if not isinstance(result, torch.Tensor) or result.numel() > MAX_ELEMENTS:
            return False
        if result.dim() > 5 or result.is_complex():
            return False
        if not result.is_floating_point():
            return True
        finite = result.double().nan_to_num(0, 0, 0) if self.special else result
        # `<=` is false for NaN.
        return result.numel() == 0 or bool(finite.abs().max() <= MAX_MAGNITUDE)

    def add(self, expression: str, exact: bool, written: str | None = None) -> bool:
        """Runs the line and keeps it if its value is usable. written: the value whose memory the
        line writes."""
        before = [v.tensor for v in self.values] if written else []
        snapshot = Snapshot()
        snapshot.take(before)
        scope = {v.name: v.tensor for v in self.values}
        try:
            result = eval(expression, {"torch": torch, "F": torch.nn.functional}, scope)
            usable = self.usable(result) and all(map(self.usable, before))
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
            usable = False
        if not usable:
            snapshot.restore()
            return False
        if written and not exact:
            target = next(v for v in self.values if v.name == written)
            for value in self.values:
                value.exact &= value.storage() != target.storage()
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.values.append(Value(name, result, exact))
        return True

    def propose(self) -> None:
        from operations import OPERATIONS

        inputs, values = len(self.inputs), len(self.values)
        try:
            proposal = self.random.choice(OPERATIONS)(self)
        except ValueError:
            proposal = None
        if proposal is None or not self.add(*proposal):
            del self.inputs[inputs:], self.values[values:]

    def grow(self, length: int) -> Program:
        for _ in range(self.random.randint(1, 3)):
            aliased = self.alias() if self.inputs and self.random.random() < 0.15 else None
            self.add_input(self.restride(self.data(self.shape())) if aliased is None else aliased)
        attempts = 0
        while len(self.lines) < length and attempts < 40 * length:
            attempts += 1
            self.propose()
        computed = [v for v in self.values if v.name.startswith("v")] or self.values
        count = min(len(computed), self.random.randint(1, 3))
        outputs = [computed[-1], *self.random.sample(computed, count - 1)]
        parameters = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        returned = ", ".join(v.name for v in outputs)
        source = f"def f({parameters}):\n{body}    return ({returned},)\n"
        original = self.pristine.copies(self.inputs, "cpu")
        return Program(self.seed, source, original, len(self.lines), self.special)


def random_program(seed: int, length: int = 12, narrow: torch.dtype | None = None) -> Program:
    """The program of a seed, which is the same every time."""
    return Grower(seed, narrow).grow(1 + seed % length)
