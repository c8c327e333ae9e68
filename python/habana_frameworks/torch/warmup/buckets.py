"""The shapes that a service compiles: a grid of batch and sequence sizes, and padding to them."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from ..internal import notices
from ..torch_compat.trees import tree_map_only

# The batch dimension and the sequence dimension of a tensor; None if it has none.
Axes = tuple[int | None, int | None]
_AXES: Axes = (0, 1)

# The limit on the shapes of a grid. Each shape is traced by the one thread of a warm-up, so this
# many take days.
MAX_SHAPES = 100_000
# The limit on the sizes of an axis before they are thinned out.
_MAX_SIZES = 1_000_000
# A tensor can have no larger size.
_MAX_SIZE = (1 << 63) - 1


class Shape(NamedTuple):
    """One point of a grid; sequence is 1 where buckets have no such axis."""

    batch: int
    sequence: int = 1

    def __str__(self) -> str:
        return f"{self.batch}x{self.sequence}"


def linear(
    low: int,
    high: int,
    step: int,
    pad_max: int | None = None,
    pad_percent: float | None = None,
) -> list[int]:
    """low, low*2, low*4, ... while below step, then the multiples of step, and high.

    pad_max, pad_percent: leave out a size where the next larger one is near enough that no input is
    padded by more elements, or by a greater part of the padded size, than this. The grid is then
    coarser where that costs little. If both are given, neither is exceeded. ValueError if a size is
    not positive, low is above high or there are too many.
    """
    _check_range(low, high, step)
    if high // step > _MAX_SIZES:
        raise ValueError(
            f"step {step}: that makes {high // step} sizes up to {high}, at most {_MAX_SIZES}"
        )
    sizes = set()
    size = low
    while size < min(step, high):
        sizes.add(size)
        size *= 2
    sizes.update(range(-(-max(low, step) // step) * step, high + 1, step))
    return _thin(sorted({*sizes, high}), pad_max, pad_percent)


def exponential(low: int, high: int, count: int | None = None, step: int = 1) -> list[int]:
    """`count` sizes from low to high in equal ratios, each rounded up to a multiple of step.

    count: None doubles from size to size. Equal sizes become one, so there may be fewer. Raises
    ValueError as linear does.
    """
    _check_range(low, high, step)
    if count is None:
        doubled = [low]
        while doubled[-1] * 2 < high:
            doubled.append(doubled[-1] * 2)
        exact: list[float] = [*doubled, high]
    elif count < 1:
        raise ValueError(f"count {count}: expected at least 1")
    elif count > _MAX_SIZES:
        raise ValueError(f"count {count}: expected at most {_MAX_SIZES}")
    else:
        last = max(count - 1, 1)
        exact = [low * (high / low) ** (i / last) for i in range(count - 1)] + [high]
    # 1e-9: a size that is a multiple of step but for rounding errors is not rounded up to the next
    # one.
    rounded = {min(high, int(-(-(size - 1e-9) // step)) * step) for size in exact}
    return sorted(rounded)


def _check_range(low: int, high: int, step: int) -> None:
    for name, value in (("low", low), ("high", high), ("step", step)):
        if value < 1:
            raise ValueError(f"{name} {value}: expected at least 1")
        if value > _MAX_SIZE:
            raise ValueError(f"{name} {value}: expected at most {_MAX_SIZE}")
    if low > high:
        raise ValueError(f"low {low} is above high {high}")


def _thin(sizes: list[int], pad_max: int | None, pad_percent: float | None) -> list[int]:
    if pad_max is None and pad_percent is None:
        return sizes
    kept = sizes[:1]
    for size, following in zip(sizes[1:], [*sizes[2:], None], strict=True):
        # The worst input is larger by one than the last size that stays.
        padding = 0 if following is None else following - kept[-1] - 1
        if (
            following is None
            or (pad_max is not None and padding > pad_max)
            or (pad_percent is not None and 100 * padding > pad_percent * following)
        ):
            kept.append(size)
    return kept


@dataclass
class Waste:
    """The cost of padding to one shape: the calls, the real elements, and the elements after
    padding."""

    calls: int = 0
    real: int = 0
    padded: int = 0

    @property
    def fraction(self) -> float:
        return 1 - self.real / self.padded if self.padded else 0.0


@dataclass(frozen=True)
class Padded:
    """Inputs padded to a bucket's shape."""

    inputs: dict[str, Any]
    shape: Shape
    real: Shape  # the shape before padding
    has_sequence: bool = field(repr=False, default=True)

    def unpad(self, output: Any, axes: Axes | Mapping[str, Axes] | None = None) -> Any:
        """The real part of every tensor in `output` (tensors in tuples, lists, dicts, data classes
        that PyTorch's pytree knows), as views.

        axes: (batch dimension, sequence dimension) of all outputs, or of the named outputs of a
        mapping. Without it, dimension 0 is batch and dimension 1 is sequence if they have the
        padded size. A dimension with the features of each sample, as in a pooled output, may have
        that size by chance: name the axes of such an output, (0, None). ValueError if a named
        dimension does not have the padded size.
        """
        if isinstance(output, torch.Tensor):
            return self._cut(output, axes if isinstance(axes, tuple) else None, "the output")
        if isinstance(output, Mapping) and isinstance(axes, Mapping):
            parts = {name: self.unpad(value, axes.get(name)) for name, value in output.items()}
            if type(output) is dict:
                return parts
            return type(output)(**{str(name): value for name, value in parts.items()})
        whole = axes if isinstance(axes, tuple) else None
        return tree_map_only(
            torch.Tensor, lambda tensor: self._cut(tensor, whole, "an output"), output
        )

    def _cut(self, tensor: torch.Tensor, axes: Axes | None, what: str) -> torch.Tensor:
        sizes = list(tensor.shape)
        for axis, (dim, padded, real) in enumerate(
            zip(axes or _AXES, self.shape, self.real, strict=True)
        ):
            if dim is None or (axis == 1 and not self.has_sequence):
                continue
            has_size = -tensor.dim() <= dim < tensor.dim() and tensor.shape[dim] == padded
            if not has_size:
                if axes is None:
                    continue
                raise ValueError(
                    f"{what} of shape {sizes} has no {Shape._fields[axis]} of "
                    f"{padded} in dimension {dim}"
                )
            # A floating-point tensor [batch, n] may as well hold features, which would be lost.
            guessed = axes is None and axis == 1 and real != padded
            if guessed and len(sizes) == 2 and tensor.is_floating_point():
                notices.once(
                    "unpad: dimension 1 of an output with two dimensions has the size of the "
                    "padded sequence and was cut as such; if it holds features, say "
                    "unpad(output, axes=(0, None))"
                )
            tensor = tensor.narrow(dim, 0, real)
        return tensor


class Buckets:
    """A grid of shapes. Thread-safe.

    batch, sequence: sizes (linear, exponential, or any whole numbers above 0); they are sorted.
    sequence is None if inputs have no such axis. ValueError if a size is not positive, there is no
    size, or there are more than MAX_SHAPES shapes.
    """

    def __init__(self, batch: Iterable[int], sequence: Iterable[int] | None = None) -> None:
        self.batch = _sizes("batch", batch)
        self.sequence = None if sequence is None else _sizes("sequence", sequence)
        if len(self) > MAX_SHAPES:
            raise ValueError(
                f"{len(self.batch)} batch sizes and {len(self.sequence or [1])} sequence sizes "
                f"make {len(self)} shapes, at most {MAX_SHAPES}: take a larger step or fewer sizes"
            )
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._waste: dict[Shape, Waste] = {}

    def shapes(self) -> list[Shape]:
        """All shapes, the largest first."""
        shapes = (Shape(b, s) for b in self.batch for s in self.sequence or [1])
        return sorted(shapes, key=lambda shape: (shape.batch * shape.sequence, shape), reverse=True)

    def __len__(self) -> int:
        return len(self.batch) * len(self.sequence or [1])

    def fit(self, batch: int, sequence: int = 1) -> Shape:
        """The smallest shape that holds the sizes. If there is none, raises a ValueError with axis,
        size and limit."""
        return Shape(
            _fit("batch", self.batch, batch),
            1 if self.sequence is None else _fit("sequence", self.sequence, sequence),
        )

    def pad(
        self,
        inputs: Mapping[str, Any],
        values: Mapping[str, float] | None = None,
        axes: Mapping[str, Axes] | None = None,
    ) -> Padded:
        """Tensors padded at the end to the smallest shape that fits all of them.

        values: the number with which an input is filled up, 0 if the input is not named. Rows that
        fill up the batch hold it too, so give an attention mask a value that masks. axes: (batch
        dimension, sequence dimension) of an input, (0, 1) if it is not named; a tensor with fewer
        dimensions lacks the further axes. Values that are not tensors, and tensors without
        dimensions, stay as they are. ValueError if inputs disagree about a size, if none has a
        batch, or if no shape fits.
        """
        values, axes = values or {}, axes or {}
        for name in (*values, *axes):
            if name not in inputs:
                raise ValueError(f"there is no input {name!r}: expected {', '.join(inputs)}")
        places = {
            name: self._dimensions(name, value, axes.get(name))
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor) and value.dim() > 0
        }
        sizes = [
            self._common_size(
                axis,
                {n: inputs[n].shape[d[axis]] for n, d in places.items() if d[axis] is not None},
            )
            for axis in (0, 1)
        ]
        real = Shape(*sizes)
        shape = self.fit(*real)
        padded = dict(inputs)
        counts = [0, 0]
        for name, dims in places.items():
            tensor = inputs[name]
            padded[name] = _fill(tensor, dims, shape, values.get(name, 0))
            counts[0] += tensor.numel()
            counts[1] += padded[name].numel()
        with self._lock:
            waste = self._waste.setdefault(shape, Waste())
            waste.calls += 1
            waste.real += counts[0]
            waste.padded += counts[1]
        return Padded(padded, shape, real, self.sequence is not None)

    def _dimensions(self, name: str, tensor: torch.Tensor, axes: Axes | None) -> Axes:
        dims: list[int | None] = []
        for axis, dim in enumerate(axes or _AXES):
            if axis == 1 and self.sequence is None:
                dim = None
            if dim is not None and not -tensor.dim() <= dim < tensor.dim():
                if axes is not None:
                    raise ValueError(
                        f"input {name!r} has {tensor.dim()} dimensions and no dimension {dim}"
                    )
                dim = None
            dims.append(dim)
        return dims[0], dims[1]

    def _common_size(self, axis: int, sizes: Mapping[str, int]) -> int:
        word = Shape._fields[axis]
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise ValueError(
                f"inputs disagree about the {word}: {listed}; name their axes, None for an axis "
                "that a tensor does not have"
            )
        if not sizes:
            if axis == 0 or self.sequence is not None:
                raise ValueError(f"no input has a {word} dimension")
            return 1
        return next(iter(sizes.values()))

    def waste(self) -> dict[Shape, float]:
        """The fraction of elements that were padding, for every shape that was used."""
        with self._lock:
            return {shape: self._waste[shape].fraction for shape in sorted(self._waste)}

    def calls(self) -> dict[Shape, int]:
        """How often each shape was used."""
        with self._lock:
            return {shape: self._waste[shape].calls for shape in sorted(self._waste)}

    def table(self) -> str:
        """One line per shape that was used, and the total last."""
        waste, calls = self.waste(), self.calls()
        lines = [f"{'shape':>12} {'calls':>8} {'padding':>8}"]
        lines += [f"{shape!s:>12} {calls[shape]:>8} {waste[shape]:>8.1%}" for shape in waste]
        with self._lock:
            total = Waste(
                sum(w.calls for w in self._waste.values()),
                sum(w.real for w in self._waste.values()),
                sum(w.padded for w in self._waste.values()),
            )
        lines.append(f"{'all':>12} {total.calls:>8} {total.fraction:>8.1%}")
        return "\n".join(lines) + "\n"


def _sizes(axis: str, sizes: Iterable[int]) -> list[int]:
    found = sorted(set(itertools.islice(sizes, _MAX_SIZES + 1)))
    if not found:
        raise ValueError(f"{axis}: no size is given")
    if len(found) > _MAX_SIZES:
        raise ValueError(f"{axis}: more than {_MAX_SIZES} sizes are given")
    for size in found:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{axis}: {size!r} is not a size: expected whole numbers above 0")
    return found


def _fit(axis: str, sizes: Sequence[int], size: int) -> int:
    if size < 1:
        raise ValueError(f"{axis} {size}: expected at least 1")
    place = bisect.bisect_left(sizes, size)
    if place == len(sizes):
        raise ValueError(f"{axis} {size} is above the largest bucket, {sizes[-1]}")
    return sizes[place]


def _fill(tensor: torch.Tensor, dims: Axes, shape: Shape, value: float) -> torch.Tensor:
    # the order of F.pad: from the last dimension, before and after
    amounts = [0] * (2 * tensor.dim())
    for dim, size in zip(dims, shape, strict=True):
        if dim is not None:
            amounts[2 * (tensor.dim() - 1 - dim % tensor.dim()) + 1] = size - tensor.shape[dim]
    if not any(amounts):
        return tensor
    return F.pad(tensor, amounts, value=value)
