"""Scales: numbers are multiplied by theirs before they become fp8, so that the largest ones seen
lie below the largest number of the format."""

from __future__ import annotations

from typing import NamedTuple

import torch

from .recipe import DelayedScaling


def scale_of(amax: torch.Tensor, scale: torch.Tensor, fp8_max: float, margin: int) -> torch.Tensor:
    """The largest power of two with amax * scale <= fp8_max, 2**margin times smaller. Where amax is
    0 or not finite the old scale stays."""
    exponent = torch.floor(torch.log2(fp8_max / amax)) - margin
    usable = (amax > 0) & torch.isfinite(amax)
    return torch.where(usable, torch.exp2(exponent), scale)


_MANTISSA_BITS = {torch.float8_e4m3fn: 3, torch.float8_e5m2: 2}


def _rounded_at_random(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Numbers of the format on either side of x, the nearer one more often: the mean is x. A random
    number is added to the bits of the mantissa that the format lacks, which are then cut off."""
    lacking = 1 << (23 - _MANTISSA_BITS[dtype])
    bits = x.view(torch.int32)
    drawn = torch.randint_like(bits, lacking)
    return ((bits + drawn) & -lacking).view(torch.float32)


def quantize(
    x: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype, at_random: bool = False
) -> torch.Tensor:
    """x * scale in fp8; what lies outside of the format becomes its largest number. at_random:
    rounding is stochastic."""
    largest = torch.finfo(dtype).max
    scaled = (x.float() * scale).clamp(-largest, largest)
    if at_random:
        scaled = _rounded_at_random(scaled, dtype).clamp(-largest, largest)
    return scaled.to(dtype)


def largest(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, f32; 0 for an empty batch."""
    if x.numel() == 0:
        return torch.zeros((), device=x.device)
    return x.detach().abs().amax().float()


class Scales(NamedTuple):
    """Copies of the scales of one run."""

    scale: torch.Tensor
    scale_inv: torch.Tensor


class FP8TensorMeta:
    """Scales and measurements of some tensors of a layer, which have an index each.

    amax_history has a row for each measurement; amax_history_index is the row of the newest one.
    All tensors are written in place, so that a replayed HPU graph goes on from its last replay. A
    run takes copies of the scales: its backward, and a checkpoint that is computed again, need the
    old ones.
    """

    scale: torch.Tensor
    scale_inv: torch.Tensor
    amax_history: torch.Tensor
    amax_history_index: torch.Tensor
    measured: bool  # whether there is a measurement that no scale follows yet

    def reset(self, tensors: int, history: int, device: torch.device) -> None:
        self.scale = torch.ones(tensors, device=device)
        self.scale_inv = torch.ones(tensors, device=device)
        self.amax_history = torch.zeros(history, tensors, device=device)
        self.amax_history_index = torch.zeros(1, dtype=torch.int64, device=device)
        self.measured = False

    def resize(self, history: int) -> None:
        """Keeps the newest measurements, the newest one last."""
        length = self.amax_history.shape[0]
        if history == length:
            return
        # The newest row becomes the last one, whatever row it is.
        order = torch.arange(1, length + 1, device=self.amax_history.device)
        rows = self.amax_history[(self.amax_history_index + order) % length]
        if history < length:
            rows = rows[length - history :]
        else:
            rows = torch.cat([rows.new_zeros(history - length, rows.shape[1]), rows])
        self.amax_history = rows.contiguous()
        self.amax_history_index.fill_(history - 1)

    def update(self, recipe: DelayedScaling, fp8_max: float) -> None:
        """Lets the scales follow the measurements."""
        if not self.measured:
            return
        if callable(recipe.amax_compute_algo):
            amax = recipe.amax_compute_algo(self.amax_history)
        elif recipe.amax_compute_algo == "max":
            amax = self.amax_history.amax(0)
        else:
            amax = self.amax_history[self.amax_history_index].squeeze(0)
        if recipe.scaling_factor_compute_algo is not None:
            found = recipe.scaling_factor_compute_algo(amax, self.scale, fp8_max, recipe)
        else:
            found = scale_of(amax, self.scale, fp8_max, recipe.margin)
        self.scale.copy_(found)
        self.scale_inv.copy_(1.0 / found)
        self.measured = False

    def scales(self) -> Scales:
        return Scales(self.scale.clone(), self.scale_inv.clone())

    def measure(self, *tensors: torch.Tensor) -> None:
        """Adds a row with the largest elements of these tensors to the history."""
        row = torch.stack([largest(t) for t in tensors])
        self.amax_history_index.copy_((self.amax_history_index + 1) % self.amax_history.shape[0])
        self.amax_history.index_copy_(0, self.amax_history_index, row[None])
        self.measured = True

    def tensors(self) -> dict[str, torch.Tensor]:
        names = ("scale", "scale_inv", "amax_history", "amax_history_index")
        return {name: getattr(self, name) for name in names}

    def load(self, tensors: dict[str, torch.Tensor], measured: bool, device: torch.device) -> None:
        for name, tensor in tensors.items():
            setattr(self, name, tensor.to(device, copy=True))
        self.measured = measured

    def restore(self, tensors: dict[str, torch.Tensor], measured: bool) -> None:
        """Like load(), but in the memory of the present tensors, which HPU graphs may use."""
        length, wanted = self.amax_history.shape[0], tensors["amax_history"].shape[0]
        if length != wanted:
            raise ValueError(
                f"te: the history of amax has {length} rows, and the saved one has {wanted}; "
                "load it with the recipe that it was saved with"
            )
        for name, tensor in tensors.items():
            getattr(self, name).copy_(tensor)
        self.measured = measured

    def initial(self) -> dict[str, torch.Tensor]:
        """The tensors as they are before the first run."""
        ones = ("scale", "scale_inv")
        return {
            name: torch.ones_like(t) if name in ones else torch.zeros_like(t)
            for name, t in self.tensors().items()
        }
