"""Constants, functions of the user's, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...media_types import dtype
from ...pipeline.operator import REQUIRED, Operator
from ...pipeline.run import Run, torch_dtype
from .cpu_nodes import media_function

_NUMBERS = tuple(
    value
    for name, value in vars(dtype).items()
    if not name.startswith("_") and value not in (dtype.NDT, dtype.BFLOAT16)
)


def as_tensor(title: str, array: Any, shape: tuple[int, ...], name: str) -> torch.Tensor:
    """A tensor of a user's array, which must have this shape and as many elements."""
    found = np.asarray(array)
    if found.size != np.prod(shape, dtype=np.int64):
        raise ValueError(
            f"{title} has {found.size} elements of shape {found.shape}, and its shape is {shape} "
            "in numpy's order of axes"
        )
    return torch.from_numpy(np.array(found, dtype=name).reshape(shape))


class MediaConst(Operator):
    ARGUMENTS = {"data": REQUIRED, "shape": REQUIRED, "dtype": dtype.UINT8}
    CHOICES = {"dtype": _NUMBERS}
    INPUTS = (0, 0)

    def check(self) -> None:
        given = self.arguments
        shape = tuple(int(size) for size in given.shape[::-1])
        self._value = as_tensor(f"{self.title}(data)", given.data, shape, given.dtype)

    def compute(self, run: Run) -> torch.Tensor:
        return self._value


class Constant(Operator):
    ARGUMENTS = {"constant": REQUIRED, "dtype": dtype.FLOAT32}
    CHOICES = {"dtype": _NUMBERS}
    INPUTS = (0, 0)

    def compute(self, run: Run) -> torch.Tensor:
        return torch.tensor([self.arguments.constant], dtype=torch_dtype(self.arguments.dtype))


class MediaFunc(Operator):
    ARGUMENTS = {
        "func": REQUIRED,
        "shape": REQUIRED,
        "dtype": dtype.UINT8,
        "seed": 0,
        "priv_params": None,
    }
    CHOICES = {"dtype": _NUMBERS}
    INPUTS = (0, 4)
    _made = 0

    def check(self) -> None:
        func = self.arguments.func
        if not (isinstance(func, type) and issubclass(func, media_function)):
            raise TypeError(
                f"{self.title}(func) must be a class that inherits from "
                "habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes.media_function"
            )
        MediaFunc._made += 1
        self._unique = MediaFunc._made

    def prepare(self, batch_size: int, queue_depth: int) -> None:
        given = self.arguments
        params = {
            "shape": given.shape,
            "dtype": given.dtype,
            "seed": given.seed,
            "priv_params": given.priv_params,
            "unique_number": self._unique,
        }
        self._func = given.func(params)

    def compute(self, run: Run, *inputs: torch.Tensor) -> torch.Tensor:
        given = self.arguments
        result = self._func(*(value.numpy() for value in inputs))
        name = f"the result of {type(self._func).__name__}"
        return as_tensor(name, result, tuple(given.shape[::-1]), given.dtype)


class CoinFlip(Operator):
    """1 with the probability of the input, which is one for all images or one for each."""

    ARGUMENTS = {"seed": 100, "dtype": dtype.UINT8}
    CHOICES = {"dtype": _NUMBERS}

    def compute(self, run: Run, probability: torch.Tensor) -> torch.Tensor:
        likely = probability.float().numpy()
        shape = (run.batch_size,) if likely.size == 1 else likely.shape
        flips = run.generator(self.arguments.seed).random(shape) < likely
        return torch.from_numpy(flips.astype(self.arguments.dtype))


class Reshape(Operator):
    """Another shape for the same elements, whose bits are read as elements of `dtype`."""

    ARGUMENTS = {"size": REQUIRED, "tensorDim": REQUIRED, "layout": "", "dtype": dtype.UINT8}
    CHOICES = {"dtype": (*_NUMBERS, dtype.BFLOAT16)}

    def check(self) -> None:
        size, axes = list(self.arguments.size), self.arguments.tensorDim
        if len(size) != axes:
            raise ValueError(
                f"{self.title}(size) has {len(size)} numbers, and tensorDim is {axes}; "
                "give as many numbers as axes, the fastest axis first"
            )

    def compute(self, run: Run, value: torch.Tensor) -> torch.Tensor:
        shape = tuple(int(size) for size in self.arguments.size[::-1])
        target = torch_dtype(self.arguments.dtype)
        if value.numel() != np.prod(shape, dtype=np.int64) or value.itemsize != target.itemsize:
            raise ValueError(
                f"{self.title} cannot make {shape} of {self.arguments.dtype} (numpy's order) of "
                f"{tuple(value.shape)} of {value.dtype}; both must have as many bytes"
            )
        return value.view(target).reshape(shape)
