"""One ATen call with given arguments, as a graph in text form and as PyTorch computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

NAMES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


@dataclass(frozen=True)
class T:
    """A tensor argument: sizes, type, and strides if it is not row-major."""

    sizes: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    strides: tuple[int, ...] | None = None

    def text(self) -> str:
        braces = "" if self.strides is None else "{" + ",".join(map(str, self.strides)) + "}"
        return f"{NAMES[self.dtype]}[{','.join(map(str, self.sizes))}]{braces}"

    def make(self, data: list | None = None) -> torch.Tensor:
        tensor = torch.zeros(self.sizes, dtype=self.dtype)
        if data is not None:
            tensor = torch.tensor([float(x) for x in data]).reshape(self.sizes).to(self.dtype)
        if self.strides is None:
            return tensor
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype).copy_(tensor)


class Case:
    def __init__(self, target: str, *args: object, **kwargs: object) -> None:
        self.target, self.args, self.kwargs = target, args, kwargs
        self.tensors: list[T] = []
        namespace, name, overload = target.split(".")
        self.op = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        given = {a.name: arg for a, arg in zip(self.op._schema.arguments, args, strict=False)}
        given |= kwargs
        self.text_args = [
            f"{a.name} = {self.argument(given.get(a.name, a.default_value))}"
            for a in self.op._schema.arguments
        ]

    def argument(self, arg: object) -> str:
        if isinstance(arg, T):
            self.tensors.append(arg)
            return f"%x{len(self.tensors) - 1}"
        if arg is None:
            return "none"
        if isinstance(arg, bool):
            return "true" if arg else "false"
        if isinstance(arg, list):
            return "[" + ", ".join(self.argument(item) for item in arg) + "]"
        if isinstance(arg, torch.dtype):
            return f"dtype {NAMES[arg]}"
        if isinstance(arg, str):
            return f'"{arg}"'
        if isinstance(arg, float) and arg in (float("inf"), float("-inf")):
            return str(arg)
        return repr(arg)

    def call(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """PyTorch's results for these tensors."""
        tensors = iter(given)

        def real(arg: object) -> object:
            if isinstance(arg, T):
                return next(tensors)
            return [real(item) for item in arg] if isinstance(arg, list) else arg

        args = [real(arg) for arg in self.args]
        results = self.op(*args, **{name: real(arg) for name, arg in self.kwargs.items()})
        return list(results) if isinstance(results, (tuple, list)) else [results]

    def text(self, used: int) -> str:
        results = self.call([t.make() for t in self.tensors])
        types = ", ".join(T(tuple(r.shape), r.dtype).text() for r in results)
        names = ", ".join(f"%r{n}" for n in range(len(results)))
        inputs = ", ".join(f"%x{n}: {t.text()}" for n, t in enumerate(self.tensors))
        returned = ", ".join(f"%r{n}" for n in range(used or len(results)))
        return (
            f'graph @case({inputs}) {{\n  {names} = aten "{self.target}"'
            f"({', '.join(self.text_args)}) : {types}\n  return {returned}\n}}\n"
        )


# f, i, b and h are f32, i64, bool and bf16 tensors of the given sizes.


def f(*sizes: int, strides: tuple[int, ...] | None = None) -> T:
    return T(sizes, strides=strides)


def i(*sizes: int) -> T:
    return T(sizes, torch.int64)


def b(*sizes: int) -> T:
    return T(sizes, torch.bool)


def h(*sizes: int) -> T:
    return T(sizes, torch.bfloat16)


def a(target: str, *args: object, **kwargs: object) -> Case:
    return Case(f"aten.{target}", *args, **kwargs)
