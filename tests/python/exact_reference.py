"""The result of a function in exact arithmetic, and how far a narrow type may be from it.

A result in bf16 or f16 is one rounding of many that are right, and PyTorch's own depends on the CPU
at hand: its kernels for AVX2 and for AVX-512 add in another order and round at other places. So no
narrow result is held against another one. The reference is the same function in f64, of the same
(rounded) inputs; integers and truth values are exact. Where an op has no f64 kernel it runs in f32,
whose error is 2^-13 of what is allowed for bf16.

The bound is derived as follows. Let u be the unit roundoff of the coarsest type that the function
meets (2^-8 for bf16, 2^-11 for f16, 2^-24 for f32), and n the number of elements of a call's
largest operand, which is at least the number of terms of any of its sums.

1. A call whose result is stored rounds it once, behind an f32 function that is itself off by at
   most 3 units in the last place (docs/numerics.md): it gives r (1 + d), |d| <= u + 6 2^-24.
2. A sum of n terms in f32 is the exact sum of terms that are each changed by a factor 1 + e, with
   |e| <= n 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
3. A call of several steps, such as a norm, attention or their gradients, may store what is between
   its steps in the narrow type. That is again a change of its terms, with |e| <= u.

How far these changes move the function's result depends on its condition, which is measured: the
function runs RUNS times in f64 with each stored result multiplied by 1 + d and, if the call is not
pointwise, each operand by 1 + e, where d and e have the largest size allowed and random signs. An
element that k changes reach varies by the root of the sum of their squares, so the mean square over
the runs, which is known within a quarter, is the variance of what k roundings can do. Roundings are
spread over [-u, u], which has a third of that variance: MARGIN = 4 of these deviations are about
seven of the real ones. One last rounding of the result is added, and half of the type's smallest
number, which is what a rounding of a denormal may be off by.

Where PyTorch's own largest error is beyond that, it is the bound: no call needs to be better than
the CPU kernel is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NARROW = (torch.bfloat16, torch.float16)
RUNS = 8
MARGIN = 4.0
_WIDE = {
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def unit_roundoff(dtype: torch.dtype) -> float:
    """The largest relative error of one rounding to nearest."""
    return torch.finfo(dtype).eps / 2


def is_narrow(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in NARROW


def widened(tensors: Sequence[Any]) -> list[Any]:
    """Copies with the same strides in f64; floats that share memory share it again."""
    bases: dict[int, torch.Tensor] = {}

    def wide(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in bases or not value.numel():
            whole = torch.empty(0, dtype=value.dtype).set_(storage)
            bases[storage.data_ptr()] = whole.to(_WIDE.get(value.dtype, value.dtype), copy=True)
        base = bases[storage.data_ptr()]
        return base.as_strided(value.shape, value.stride(), value.storage_offset())

    return [wide(value) for value in tensors]


class _InF64(TorchDispatchMode):
    """Runs every call in f64, whatever types it names; with a generator it adds roundings of
    `unit`."""

    def __init__(self, unit: float = 0.0, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.unit, self.generator = unit, generator
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.view.dtype:
            raise NotImplementedError("bits of a narrow type have no exact value")
        args, kwargs = tree_map(self._wide, (args, kwargs or {}))
        pointwise = torch.Tag.pointwise in func.tags
        returns = func._schema.returns
        views = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        if (
            self.generator is not None
            and not pointwise
            and not views
            and not func._schema.is_mutable
        ):
            operands = [x for x in tree_leaves((args, kwargs)) if _floating(x)]
            terms = max((x.numel() for x in operands), default=0)
            unit = max(self.unit, terms * 2.0**-24)
            args, kwargs = tree_map(lambda x: self._changed(x, unit), (args, kwargs))
        results = self._call(func, args, kwargs)
        if self.generator is None or views:
            return results
        if func._schema.is_mutable:
            for x in tree_leaves(results):
                if _floating(x):
                    x.copy_(self._changed(x, self.unit))
            return results
        return tree_map(lambda x: self._changed(x, self.unit), results)

    def _wide(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            self.dtypes.add(value)
            return _WIDE.get(value, value)
        if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
            self.dtypes.add(value.dtype)
            return value.to(_WIDE[value.dtype])
        return value

    def _changed(self, value: Any, unit: float) -> Any:
        if not _floating(value):
            return value
        # Strides of dense results stay as they are, because a view may follow.
        signs = torch.empty_like(value).random_(0, 2, generator=self.generator)
        return value * (1 + unit * (signs * 2 - 1))

    @staticmethod
    def _call(func: Any, args: Any, kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except (RuntimeError, AssertionError):
            if func._schema.is_mutable:
                raise
        narrower = {torch.float64: torch.float32}

        def single(x: Any) -> Any:
            if isinstance(x, torch.dtype):
                return narrower.get(x, x)
            return x.float() if _floating(x) else x

        results = func(*tree_map(single, args), **tree_map(single, kwargs))
        return tree_map(lambda x: x.double() if _floating(x) else x, results)


def _floating(value: Any) -> bool:
    """False for floats of 8 bits: nothing but exact casts is done with them."""
    return (
        isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype.itemsize > 1
    )


class ExactReference:
    """`values`: the results of the function, then its inputs as it left them, in f64 if they are
    floats; `bounds`: the error allowed for each element.

    coarsest: the type to which results may be rounded; by default the coarsest type that the
    function meets. Under autocast it must be given, because autocast leaves f64 as it is.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *inputs: Any,
        coarsest: torch.dtype | None = None,
        runs: int = RUNS,
    ) -> None:
        self._function, self._inputs = function, inputs
        mode = _InF64()
        self.values = self._run(mode)
        met = {x.dtype for x in inputs if isinstance(x, torch.Tensor)} | mode.dtypes
        floats = [d for d in met if d in (*NARROW, torch.float32)] or [torch.float32]
        self.dtype = coarsest or max(floats, key=unit_roundoff)
        unit = unit_roundoff(self.dtype) + 6 * 2.0**-24
        squares = [torch.zeros(()) for _ in self.values]
        for seed in range(runs):
            changed = self._run(_InF64(unit, torch.Generator().manual_seed(seed)))
            for n, (other, value) in enumerate(zip(changed, self.values, strict=True)):
                if _floating(value):
                    squares[n] = squares[n] + (other - value).nan_to_num(0, math.inf).square()
        least = torch.finfo(self.dtype).smallest_normal * torch.finfo(self.dtype).eps / 2
        self.bounds = [
            MARGIN * (square / runs).sqrt() + unit * value.abs() + least
            if _floating(value)
            else None
            for square, value in zip(squares, self.values, strict=True)
        ]

    def _run(self, mode: TorchDispatchMode) -> list[Any]:
        given = widened(self._inputs)
        with mode:
            results = self._function(*given)
        return [
            x.detach() if isinstance(x, torch.Tensor) else x
            for x in [*tree_leaves(results), *given]
        ]

    def check(self, ours: Sequence[Any], theirs: Sequence[Any] | None = None) -> None:
        """ours, theirs: the results of the backend and of PyTorch for `values`, or for the first of
        them."""
        for n, got in enumerate(ours):
            wrong = self.excess(n, got, None if theirs is None else theirs[n])
            assert wrong is None, f"result {n}: {wrong}"

    def excess(self, n: int, got: Any, eager: Any = None) -> str | None:
        """Says what is wrong with result n, or returns None."""
        exact, bound = self.values[n], self.bounds[n]
        if not isinstance(exact, torch.Tensor):
            return None if got == exact else f"{got} instead of {exact}"
        got = got.detach().cpu()
        if bound is None:
            # A truth value or an index after a rounding may be that of the rounded number.
            if torch.equal(got, exact) or (eager is not None and torch.equal(got, eager)):
                return None
            return f"{got} instead of {exact}"
        if got.shape != exact.shape:
            return f"{list(got.shape)} instead of {list(exact.shape)}"
        limit = _limited(exact, got.dtype)
        got = got.double()
        own = 0.0
        if eager is not None and exact.numel():
            difference = _difference(eager.detach().cpu().double(), limit)
            own = (
                difference[difference.isfinite()].amax().item()
                if difference.isfinite().any()
                else 0
            )
        error = _difference(got, limit)
        wrong = ~(error <= bound.nan_to_num(0).clamp(min=own))
        if not wrong.any():
            return None
        at = tuple(wrong.nonzero()[(error / bound)[wrong].argmax()].tolist())
        return (
            f"{int(wrong.sum())} of {got.numel()} are beyond the bound: {got[at].item():g} instead "
            f"of {exact[at].item():g} at {at}, where {bound[at].item():.2g} is allowed and "
            f"PyTorch's own largest error is {own:.2g}"
        )


def _limited(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A number beyond the type's largest number is infinite in that type."""
    finfo = torch.finfo(dtype)
    beyond = exact.abs() >= finfo.max * (1 + finfo.eps / 4)
    return torch.where(beyond, exact.sign() * math.inf, exact)


def _difference(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    equal = (got == exact) | (got.isnan() & exact.isnan())
    return torch.where(equal, 0.0, (got - exact).abs())
