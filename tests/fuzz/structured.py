"""Lines that reduce, multiply or slide windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from movements import values_of

if TYPE_CHECKING:
    from operations import Proposal
    from programs import Grower

REDUCTIONS = (
    "torch.sum({x}, dim={dims}, keepdim={keep})",
    "torch.mean({x}, dim={dims}, keepdim={keep})",
    "torch.amax({x}, dim={dims}, keepdim={keep})",
    "torch.amin({x}, dim={dims}, keepdim={keep})",
    "torch.sum({x})",
    "torch.mean({x})",
    "torch.max({x})",
    "torch.min({x})",
    "torch.prod({x}.clamp(0, 1) + 0.25)",
    "torch.prod({x}.clamp(0, 1) + 0.25, dim={d})",
    "torch.max({x}, dim={d}, keepdim={keep})[0]",
    "torch.min({x}, dim={d}, keepdim={keep})[0]",
    "torch.logsumexp({x}, dim={dims}, keepdim={keep})",
    "torch.linalg.vector_norm({x}, dim={dims}, keepdim={keep})",
    "torch.linalg.vector_norm({x}, 1, dim={d})",
    "torch.linalg.vector_norm({x}, 3.0, dim={d})",
    "torch.linalg.vector_norm({x}, float('inf'), dim={d})",
    "torch.ops.aten.norm.Scalar({x}, 2)",
    "torch.nansum({x}, dim={dims}, keepdim={keep})",
    "torch.ops.aten.norm.ScalarOpt_dim({x}, 2, [{d}], True)",
)
# For an exact value.
EXACT_REDUCTIONS = (
    "torch.argmax({x}, dim={d}, keepdim={keep})",
    "torch.argmin({x}, dim={d})",
    "torch.argmax({x})",
    "torch.max({x}, dim={d})[1]",
    "torch.min({x}, dim={d})[1]",
    "torch.any({x} > 0.5, dim={d})",
    "torch.all({x} > 0.5, dim={d}, keepdim={keep})",
    "torch.any({x} > 1)",
    "torch.all({x} > -3)",
    "torch.any({x}, dim={dims})",
    "torch.sum({x} > 0, dim={d})",
    "torch.topk({x}, {k}, dim={d})[0]",
    "torch.topk({x}, {k}, dim={d}, largest=False)[0]",
    "torch.sort({x}, dim={d})[0]",
    "torch.sort({x}, stable=True, dim={d}, descending={keep})[1]",
    "torch.argsort({x}, dim={d}, stable=True)",
    "torch.cumsum({x} > 0, dim={d})",
    "torch.cummax({x}, dim={d})[0]",
    "torch.cummax({x}, dim={d})[1]",
    "torch.cummin({x}, dim={d})[0]",
    "torch.cummin({x}, dim={d})[1]",
    "torch.count_nonzero({x} > 0)",
    "torch.kthvalue({x}, {k}, dim={d})[0]",
    "torch.median({x}, dim={d})[0]",
)
# Over one dimension with several elements.
NORMALISING = (
    "{x}.var(dim={d}, keepdim={keep}, correction={n})",
    "{x}.std(dim={d}, keepdim={keep}, correction={n}).clamp(min=0.1)",
    "torch.var_mean({x}, dim={d}, correction={n})[0]",
    "torch.var_mean({x}, dim={d}, correction={n})[1]",
    "torch.std_mean({x}, dim={d}, correction={n})[1]",
    "{x}.var()",
    "torch.softmax({x}, dim={d})",
    "torch.log_softmax({x}, dim={d})",
    "torch.softmax({x}, dim={d}, dtype=torch.float32)",
    "torch.cumsum({x}, dim={d})",
    "torch.cumprod({x}.clamp(0, 1) + 0.25, dim={d})",
    "F.layer_norm({x}, [{last}], eps=1e-2)",
    "F.layer_norm({x}, [{last}], {w}, {b}, 1e-2)",
    "torch.native_layer_norm({x}, [{last}], {w}, None, 1e-2)[0]",
    "F.rms_norm({x}, [{last}], eps=1e-2)",
    "F.rms_norm({x}, [{last}], {w}, 1e-2)",
)
# Channels are dimension 1. The forms are contiguous, because PyTorch's CPU kernels choose the
# strides.
CHANNELS = (
    "F.group_norm({x}.contiguous(), 1, {w}, {b}, 1e-2)",
    # CPU eager reads a strided weight of native_group_norm as if it were dense.
    "torch.native_group_norm("
    "{x}.contiguous(), {w}.contiguous(), None, {x}.shape[0], {c}, {rest}, 1, 1e-2)[0]",
    "F.instance_norm({x}.contiguous(), None, None, {w}, {b}, True, 0.1, 1e-2)",
    "F.batch_norm({x}.contiguous(), {w}, {b}.abs() + 0.5, {w}, {b}, False, 0.1, 1e-2)",
    "torch.ops.aten._native_batch_norm_legit_no_training"
    "({x}.contiguous(), {w}, {b}, {w}, {b}.abs() + 0.5, 0.1, 1e-2)[0]",
    "F.prelu({x}.contiguous(), {w})",
)
PRODUCTS = (
    ("torch.matmul({x}, {y})", (None, "k n")),
    ("torch.mm({x}.reshape(-1, {k}), {y})", (None, "k n")),
    ("torch.bmm({x}.reshape(1, -1, {k}), {y})", (None, "1 k n")),
    ("F.linear({x}, {y})", (None, "n k")),
    ("F.linear({x}, {y}, {z})", (None, "n k", "n")),
    ("torch.addmm({z}, {x}.reshape(-1, {k}), {y})", (None, "k n", "n")),
    ("torch.addmm({z}, {x}.reshape(-1, {k}), {y}, beta=0.5, alpha=2)", (None, "k n", "n")),
    ("torch.addmv({z}, {y}, {x}.reshape(-1, {k})[0])", (None, "n k", "n")),
    ("torch.baddbmm({z}, {x}.reshape(1, -1, {k}), {y})", (None, "1 k n", "1 1 n")),
    ("torch.mv({x}.reshape(-1, {k}), {y})", (None, "k")),
    ("torch.dot({x}.reshape(-1, {k})[0], {y})", (None, "k")),
    ("torch.outer({x}.reshape(-1), {y})", (None, "n")),
    ("torch.matmul({y}, {x}.transpose(-1, -2))", (None, "n k")),
    # PyTorch wants rows of whole 16 bytes, and leaves rows of no group as they are.
    (
        "torch.ops.aten._grouped_mm(F.pad({x}.reshape(-1, {k}), (0, 32 - {k})).contiguous(), {y},"
        " torch.tensor([1, 1, {x}.numel() // {k}], dtype=torch.int32, device={x}.device))",
        (None, "3 32 16"),
    ),
    # CPU eager reads past the rows of a bf16 tensor whose length is no multiple of 16, and crashes.
    (
        "torch.ops.aten._weight_int8pack_mm("
        "F.pad({x}.reshape(-1, {k}), (0, 32 - {k})).contiguous(),"
        " ({y} * 40).clamp(-128, 127).to(torch.int8), {z}.contiguous()) / 40",
        (None, "n 32", "n"),
    ),
    (
        "F.linear({x}, ({y} * 40).clamp(-128, 127).to(torch.int8).to({x}.dtype) * {z}) / 40",
        (None, "n k", "n 1"),
    ),
    # CPU eager reads scales as if they were row-major, whatever strides they have.
    (
        "torch.ops.aten._weight_int4pack_mm_for_cpu("
        "F.pad({x}.reshape(-1, {k}), (0, 32 - {k})).contiguous(),"
        " ({y}.abs() * 80).clamp(max=255).to(torch.uint8), 32, {z}.contiguous()) / 8",
        (None, "64 16", "1 64 2"),
    ),
)
WINDOWS = (
    (3, "F.conv1d({x}, {w3}, stride={s}, padding={p})"),
    (3, "F.conv1d({x}, {w3}, padding='same')"),
    (3, "F.conv_transpose1d({x}, {t3}, stride={s})"),
    (3, "F.avg_pool1d({x}, 2)"),
    (3, "F.max_pool1d({x}, 2)"),
    (4, "F.conv2d({x}, {w4}, stride={s}, padding={p})"),
    (4, "F.conv2d({x}, {w4}, {bias}, stride={s}, padding={p}, dilation={s})"),
    (4, "F.conv2d({x}, {d4}, groups={c})"),
    (4, "F.conv2d({x}, {w4}, padding='same')"),
    (4, "F.conv_transpose2d({x}, {t4}, stride={s}, padding={p})"),
    (4, "F.max_pool2d({x}, 2)"),
    (4, "F.max_pool2d({x}, 3, stride=2, padding=1, ceil_mode=True)"),
    (4, "F.avg_pool2d({x}, 2)"),
    (4, "F.avg_pool2d({x}, 3, stride=2, padding=1, count_include_pad=False)"),
    (4, "F.adaptive_avg_pool2d({x}, {s})"),
    (4, "F.interpolate({x}, scale_factor=2, mode='nearest')"),
    (4, "F.interpolate({x}, scale_factor=2, mode='nearest-exact')"),
    (4, "F.interpolate({x}, scale_factor=2, mode='bilinear')"),
    (4, "F.interpolate({x}, scale_factor=2, mode='bilinear', align_corners=True)"),
    (4, "F.pixel_shuffle(torch.cat([{x}, {x}, {x}, {x}], 1), 2)"),
    (5, "F.conv3d({x}, {w5}, padding={p})"),
    (5, "F.conv_transpose3d({x}, {t5}, stride={s})"),
)


def reduce(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    if x is None:
        return None
    form = g.random.choice(REDUCTIONS)
    extremum = any(name in form for name in ("amax", "amin", "torch.max", "torch.min"))
    return form.format(**values_of(g, x)), x.exact and extremum


def reduce_exact(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.exact and v.tensor.dim() > 0)
    return x and (g.random.choice(EXACT_REDUCTIONS).format(**values_of(g, x)), True)


def normalise(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.is_float and v.tensor.dim() > 0 and v.tensor.shape[-1] > 1)
    if x is None:
        return None
    form = g.random.choice(NORMALISING)
    if g.special and ("var" in form or "std" in form):
        return None  # PyTorch's running update gives NaN for infinities
    last, dtype = x.tensor.shape[-1], x.tensor.dtype
    names = {**values_of(g, x), "last": last, "n": g.random.randint(0, 1)}
    if x.tensor.shape[names["d"]] < 2:
        names["d"] = -1
    for weight in "wb":
        if f"{{{weight}}}" in form:
            names[weight] = g.fresh([last], dtype)
    return form.format(**names), False


def channels(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.is_float and v.tensor.dim() > 2 and v.tensor.numel() > 0)
    if x is None:
        return None
    form = g.random.choice(CHANNELS)
    c, dtype = x.tensor.shape[1], x.tensor.dtype
    names = {"x": x.name, "c": c, "rest": x.tensor[0, 0].numel()}
    for weight in "wb":
        if f"{{{weight}}}" in form:
            # Eager folds mean and weight into x * a + b, in which infinity minus infinity is NaN.
            names[weight] = g.fresh([c], dtype, special=False)
    return form.format(**names), False


def product(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    if x is None:
        return None
    form, operands = g.random.choice(PRODUCTS)
    k = x.tensor.shape[-1]
    sizes = {"k": k, "n": g.random.choice((1, 2, 3, 5, 8, 17, 31, 64)), "1": 1}
    names = {"x": x.name, "k": k}
    for name, shape in zip("yz", operands[1:], strict=False):
        names[name] = g.fresh(
            [sizes.get(size) or int(size) for size in shape.split()], x.tensor.dtype
        )
    return f"{form.format(**names)} * {1 / max(k, 1) ** 0.5:.4f}", False


def product_of_two(g: Grower) -> Proposal:
    a = g.pick_float(rank=2)
    if a is None:
        return None
    k = a.tensor.shape[-1]
    b = g.pick(
        lambda v: (
            v.tensor.dtype == a.tensor.dtype and v.tensor.dim() >= 2 and k in v.tensor.shape[-2:]
        )
    )
    if b is None:
        return None
    right = b.name if b.tensor.shape[-2] == k else f"{b.name}.transpose(-1, -2)"
    return f"torch.matmul({a.name}, {right}) * {1 / max(k, 1) ** 0.5:.4f}", False


def attention(g: Grower) -> Proposal:
    # Eager adds -inf to a masked score, so that an infinite score becomes NaN; here the score is
    # not read.
    q = g.pick(
        lambda v: (
            v.is_float
            and v.tensor.dim() in (3, 4)
            and v.tensor.numel() > 0
            and bool(v.tensor.isfinite().all())
        )
    )
    if q is None:
        return None
    *batch, rows, depth = q.tensor.shape
    columns = g.random.choice((1, 3, 7, 16, 33))
    k, v = (g.fresh([*batch, columns, depth], q.tensor.dtype, special=False) for _ in "kv")
    form = g.random.choice(
        (
            "F.scaled_dot_product_attention({q}, {k}, {v})",
            "F.scaled_dot_product_attention({q}, {k}, {v}, is_causal=True)",
            "F.scaled_dot_product_attention({q}, {k}, {v}, {m}, scale=0.5)",
            "F.scaled_dot_product_attention({q}, {k}, {v}, {m} > 0)",
        )
    )
    mask = g.fresh([rows, columns], q.tensor.dtype) if "{m}" in form else ""
    return form.format(q=q.name, k=k, v=v, m=mask), False


def window(g: Grower) -> Proposal:
    rank, form = g.random.choice(WINDOWS)
    x = g.pick(lambda v: v.is_float and v.tensor.dim() == rank and v.tensor.numel() > 0)
    if x is None:
        x = g.add_input(
            g.restride(g.floats([g.random.choice((1, 2, 3, 5, 7)) for _ in range(rank)]))
        )
    c, spatial = x.tensor.shape[1], rank - 2
    out = g.random.choice((1, 2, 5, 8))
    kernel = [g.random.randint(1, 3) for _ in range(spatial)]
    shapes = {
        f"w{rank}": [out, c, *kernel],
        f"t{rank}": [c, out, *kernel],
        f"d{rank}": [c, 1, *kernel],
        "bias": [out],
    }
    names = {"x": x.name, "c": c, "s": g.random.randint(1, 2), "p": g.random.randint(0, 1)}
    for name, shape in shapes.items():
        if f"{{{name}}}" in form:
            # Whether the padding is multiplied by a NaN in a weight is left to the implementation.
            names[name] = g.fresh(shape, x.tensor.dtype, special=False)
    line = form.format(**names)
    return (line, False) if "max_pool" not in form else (line, x.exact)


def wide_convolution(g: Grower) -> Proposal:
    """A convolution that is large enough for the device's Winograd form (docs/decisions/0009).
    Infinities in one window give NaN there, so values are finite."""
    channels, outputs = g.random.choice((16, 32, 64)), g.random.choice((24, 64, 65))
    height, width = (g.random.randint(7, 14) for _ in "hw")
    images, padding = g.random.choice((1, 3)), g.random.randint(0, 1)
    x, w, b = (
        g.fresh(shape, torch.float32, special=False)
        for shape in ([images, channels, height, width], [outputs, channels, 3, 3], [outputs])
    )
    line = f"F.conv2d({x}, {w}, {b}, padding={padding}) * {1 / (9 * channels) ** 0.5:.4f}"
    return line, False


OPERATIONS = (
    *[reduce, reduce, reduce_exact, reduce_exact, normalise, normalise, channels],
    *[product, product, product_of_two, attention, window, window, wide_convolution],
)
