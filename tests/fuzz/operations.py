"""The operations of random programs: each entry proposes one line for a program, or None.

A proposal is (expression, exact) or (expression, exact, name of the value it writes to); exact
means that equal inputs give bit-equal results everywhere. This module has elementwise operations
and sources of tensors; movements.py and structured.py have the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import movements
import structured
import writes

if TYPE_CHECKING:
    from programs import Grower, Value

Proposal = tuple[str, bool] | tuple[str, bool, str] | None
Entry = Callable[["Grower"], Proposal]

# Continuous functions of one float value, whose name is {0}. Arguments are limited to where the
# slope is small, so that the earlier rounding of a narrow type does not show as a difference.
SMOOTH = (
    "torch.tanh({0})",
    "torch.sigmoid({0})",
    "torch.special.expit({0})",
    "torch.sin({0}.clamp(-4, 4))",
    "torch.sinc({0}.clamp(-4, 4))",
    "torch.cos({0}.clamp(-4, 4))",
    "torch.tan({0}.clamp(-1, 1))",
    "torch.asin({0}.clamp(-0.9, 0.9))",
    "torch.acos({0}.clamp(-0.9, 0.9))",
    "torch.atan({0})",
    "torch.sinh({0}.clamp(-3, 3))",
    "torch.cosh({0}.clamp(-3, 3))",
    "torch.asinh({0})",
    "torch.acosh({0}.abs() + 1.5)",
    "torch.atanh({0}.clamp(-0.9, 0.9))",
    "torch.erf({0})",
    "torch.erfc({0}.clamp(-2, 1))",
    "torch.exp(-{0}.abs())",
    "torch.exp2(-{0}.abs())",
    "torch.expm1({0}.clamp(-5, 3))",
    "torch.log({0}.abs() + 0.5)",
    "torch.log1p({0}.abs())",
    "torch.log2({0}.abs() + 0.5)",
    "torch.log10({0}.abs() + 0.5)",
    "torch.sqrt({0}.abs() + 0.25)",
    "torch.rsqrt({0}.abs() + 0.5)",
    "torch.reciprocal({0}.abs() + 1)",
    "torch.square({0})",
    "torch.pow({0}.abs() + 0.5, 1.5)",
    "torch.pow({0}, 2)",
    "torch.pow({0}, 3)",
    "torch.pow({0}.abs() + 0.5, -0.5)",
    "torch.pow(2.0, {0}.clamp(-3, 3))",
    "F.silu({0})",
    "F.gelu({0}.clamp_max(1e4))",  # CPU eager makes NaN from infinity
    "F.gelu({0}, approximate='tanh')",
    "F.softplus({0})",
    "F.softplus({0}, beta=2, threshold=12)",  # at a small threshold the function jumps
    "F.mish({0})",
    "F.elu({0})",
    "F.elu({0}, 0.5)",
    "F.selu({0})",
    "F.celu({0}, 2.0)",
    "F.hardswish({0})",
    "F.hardsigmoid({0})",
    "F.leaky_relu({0})",
    "F.logsigmoid({0}.contiguous())",
    "F.softsign({0})",
    "F.glu(torch.cat([{0}, {0}], -1))",
    "{0} / 3",
    "1 - {0}",
    "torch.deg2rad({0})",
    "torch.special.entr({0}.abs() + 0.25)",
    "torch.rsub({0}, 2, alpha=0.5)",
    "F.dropout({0}, 0.5, training=False)",
    "torch.feature_dropout({0}, 0.5, False)",
    "torch.native_dropout({0}, 0.5, False)[0]",
    # no recipe has this operation, so it is an eager step
    "torch.special.i0({0}.clamp(-0.5, 0.5))",
)
# Selections and sign changes: exact if the operand is.
EXACT_UNARY = (
    "torch.neg({0})",
    "torch.abs({0})",
    "torch.relu({0})",
    "torch.clone({0})",
    "F.relu6({0})",
    "F.hardtanh({0}, -0.5, 1.5)",
    "torch.nan_to_num({0})",
    "torch.clamp({0}, -0.5, 0.5)",
    "torch.clamp({0}, min=0.25)",
    "torch.clamp_min({0}, -0.25)",
    "torch.clamp_max({0}, 0.75)",
    "{0}.detach()",
)
# For exact floats only.
JUMPS = (
    "torch.floor({0})",
    "torch.ceil({0})",
    "torch.round({0})",
    "torch.trunc({0})",
    "torch.frac({0})",
    "torch.sign({0})",
    "torch.sgn({0})",
    "torch.isnan({0})",
    "torch.isinf({0})",
    "torch.isfinite({0})",
    "torch.isneginf({0})",
    "torch.heaviside({0}, {0})",
    "F.threshold({0}, 0.5, 3.0)",
    "torch.fmod({0}, 0.75)",
    "torch.remainder({0}, 0.75)",
    "torch.div({0}, 0.75, rounding_mode='floor')",
    "torch.div({0}, 0.75, rounding_mode='trunc')",
    "torch.floor_divide({0}, 0.75)",
    "{0} == 0",
    "{0} != 0.5",
    "{0} < 0.25",
    "{0} <= 0",
    "{0} > 0",
    "{0} >= -0.5",
    "torch.logical_not({0})",
)
INTEGER = (
    "{0} + 3",
    "{0} * 2",
    "{0} - 1",
    "{0} % 5",
    "{0} // 3",
    "torch.fmod({0}, 4)",
    "{0} & 6",
    "{0} | 1",
    "{0} ^ 5",
    "{0} << 2",
    "{0} >> 1",
    "~{0}",
    "torch.pow({0} % 4, 2)",
    "{0}.sign()",
    "{0}.clamp(-2, 3)",
    "{0} == 2",
    "{0} < 1",
    "F.one_hot({0}.to(torch.int64) % 5, 5)",
    "{0}.masked_fill({0} > 2, 7)",
    "torch.where({0} > 0, {0}, 1)",
)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
SMOOTH_BINARY = (
    "torch.pow({0}.abs() + 0.5, {1}.clamp(-2, 2))",
    "torch.atan2({0}, {1}.abs() + 0.5)",
    "torch.hypot({0}, {1})",
    "torch.xlogy({0}, {1}.abs() + 0.5)",
    "torch.logaddexp({0}, {1})",
    "torch.lerp({0}, {1}, 0.25)",
    "{0} / ({1}.abs() + 1)",
    "torch.true_divide({0}, {1}.abs() + 1)",
    "torch.add({0}, {1}, alpha=0.5)",
    "torch.sub({0}, {1}, alpha=2)",
    "torch.rsub({0}, {1})",
)
SMOOTH_TERNARY = (
    "torch.addcmul({0}, {1}, {2}, value=0.5)",
    "torch.addcdiv({0}, {1}, {2}.abs() + 1)",
    "torch.lerp({0}, {1}, {2}.sigmoid())",
)
SOURCES = (
    "torch.arange({n}, device={0}.device)",
    "torch.arange(1, {n}, 2, device={0}.device)",
    "torch.arange(0.5, {n}, 0.25, device={0}.device)",
    "torch.linspace(-1, 1, {n}, device={0}.device)",
    "torch.full(({n}, 3), 0.5, device={0}.device)",
    "torch.zeros_like({0})",
    "torch.ones_like({0})",
    "torch.full_like({0}, 2)",
    "{0}.new_zeros(({n},))",
    "{0}.new_ones(({n},))",
    "{0}.new_full(({n},), 1.5)",
    "torch.empty_like({0}).fill_(1)",
    "torch.empty(({n}, 2), device={0}.device).zero_()",
    "torch.fill({0}, 2)",
    "torch.scalar_tensor(1.5, device={0}.device)",
)
CASTS = ("float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


def one_of(forms: tuple[str, ...], accept: Callable[[Value], bool], exact: bool = False) -> Entry:
    """Lines with one value. exact: the result is as exact as the value."""

    def propose(g: Grower) -> Proposal:
        x = g.pick(accept)
        return x and (g.random.choice(forms).format(x.name), exact and x.exact)

    return propose


def two_floats(g: Grower) -> Proposal:
    a, b = g.pick_float(), g.pick_float()
    return a and b and (g.random.choice(SMOOTH_BINARY).format(a.name, b.name), False)


def three_floats(g: Grower) -> Proposal:
    a, b, c = g.pick_float(), g.pick_float(), g.pick_float()
    if a is None or b is None or c is None:
        return None
    return g.random.choice(SMOOTH_TERNARY).format(a.name, b.name, c.name), False


def arithmetic(g: Grower) -> Proposal:
    a, b = g.pick(), g.pick()
    if a is None or b is None:
        return None
    op = g.random.choice(("+", "-", "*"))
    return f"{a.name} {op} {b.name}", a.exact and b.exact and not (a.is_float or b.is_float)


def with_number(g: Grower) -> Proposal:
    x = g.pick()
    number = g.random.choice((2, 3, -1, 0.5, 1.25))
    op = g.random.choice(("+", "-", "*", "/"))
    return x and (f"{x.name} {op} {number}", False)


def extremum(g: Grower) -> Proposal:
    a, b = g.pick(), g.pick()
    if a is None or b is None:
        return None
    form = g.random.choice(
        ("torch.maximum({}, {})", "torch.minimum({}, {})", "torch.clamp({}, min={})")
    )
    return form.format(a.name, b.name), a.exact and b.exact


def compare(g: Grower) -> Proposal:
    a, b = g.pick(lambda v: v.exact), g.pick(lambda v: v.exact)
    return a and b and (f"torch.{g.random.choice(COMPARISONS)}({a.name}, {b.name})", True)


def where(g: Grower) -> Proposal:
    c = g.pick(lambda v: str(v.tensor.dtype) == "torch.bool")
    a, b = g.pick(), g.pick()
    if c is None or a is None or b is None:
        return None
    form = g.random.choice(
        (
            "torch.where({0}, {1}, {2})",
            "torch.where({0}, {1}, 2)",
            "torch.where({0}, 0.5, {1})",
            "torch.where({0}, 1.0, 0.0)",
            "{1}.masked_fill({0}, 2)",
            "{1}.masked_fill({0}, torch.tensor(2.0, device={1}.device))",
        )
    )
    return form.format(c.name, a.name, b.name), a.exact and b.exact


def logic(g: Grower) -> Proposal:
    a, b = g.pick(lambda v: v.exact), g.pick(lambda v: v.exact)
    if a is None or b is None:
        return None
    form = g.random.choice(
        (
            "torch.logical_and({}, {})",
            "torch.logical_or({}, {})",
            "torch.logical_xor({}, {})",
            "{} & {}",
            "{} | {}",
            "{} ^ {}",
            "{} % ({} * 0 + 3)",
            "torch.fmod({}, {} * 0 + 3)",
            "torch.div({}, {} * 0 + 3, rounding_mode='floor')",
        )
    )
    return form.format(a.name, b.name), True


def cast(g: Grower) -> Proposal:
    x = g.pick()
    if x is None:
        return None
    other = g.pick()
    target = g.random.choice(CASTS)
    if other is not None and g.random.random() < 0.1 and (x.exact or other.is_float):
        return f"{x.name}.{g.random.choice(('type_as', 'to'))}({other.name})", False
    if x.is_float and "float" not in target:
        # The value must have whole numbers in a type's range; the conversion of others is
        # undefined.
        if not x.exact or g.special:
            return None
        low = 0 if target == "uint8" else -100
        return f"{x.name}.clamp({low}, 100).to(torch.{target})", True
    return f"{x.name}.to(torch.{target})", x.exact


def source(g: Grower) -> Proposal:
    x = g.pick()
    n = g.random.choice((1, 2, 3, 7, 16, 17))
    return x and (g.random.choice(SOURCES).format(x.name, n=n), False)


def is_float(v: Value) -> bool:
    return v.is_float


def is_integer(v: Value) -> bool:
    return v.exact and not v.is_float and str(v.tensor.dtype) != "torch.bool"


OPERATIONS: tuple[Entry, ...] = (
    *[one_of(SMOOTH, is_float)] * 5,
    *[one_of(EXACT_UNARY, lambda v: str(v.tensor.dtype) != "torch.bool", True)] * 2,
    *[one_of(JUMPS, lambda v: v.is_float and v.exact, True)] * 2,
    *[one_of(INTEGER, is_integer, True)] * 2,
    *[two_floats, three_floats, arithmetic, arithmetic, with_number, extremum, compare],
    *[where, logic, cast, cast, source],
    *structured.OPERATIONS,
    *movements.OPERATIONS,
    *writes.OPERATIONS,
)
