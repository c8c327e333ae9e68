"""What random programs are made of: each entry proposes one line for a program, or None.

A proposal is (expression, exact): exact says that equal inputs give bit-equal results everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs import Grower

Proposal = tuple[str, bool] | None

SMOOTH = (
    "torch.tanh",
    "torch.sigmoid",
    "torch.sin",
    "torch.cos",
    "torch.erf",
    "F.silu",
    "F.gelu",
    "F.softplus",
    "F.mish",
    "F.elu",
    "F.hardswish",
    "F.leaky_relu",
    "torch.expm1",
    "torch.atan",
)
EXACT_UNARY = ("torch.neg", "torch.abs", "torch.relu", "torch.clone")
JUMPS = ("torch.floor", "torch.ceil", "torch.round", "torch.trunc", "torch.sign")
COMPARISONS = ("torch.eq", "torch.ne", "torch.lt", "torch.le", "torch.gt", "torch.ge")
REDUCTIONS = ("torch.sum", "torch.mean", "torch.amax", "torch.amin")


def smooth(g: Grower) -> Proposal:
    x = g.pick_float()
    return x and (f"{g.random.choice(SMOOTH)}({x.name})", False)


def guarded(g: Grower) -> Proposal:
    """Functions with poles, kept away from them."""
    x = g.pick_float()
    form = g.random.choice(
        (
            "torch.log({}.abs() + 0.5)",
            "torch.sqrt({}.abs() + 0.25)",
            "torch.rsqrt({}.abs() + 0.5)",
            "torch.exp(-{}.abs())",
            "torch.reciprocal({}.abs() + 1)",
            "torch.pow({}.abs() + 0.5, 1.5)",
            "torch.log1p({}.abs())",
        )
    )
    return x and (form.format(x.name), False)


def exact_unary(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.dtype.is_floating_point or v.tensor.dtype.is_signed)
    return x and (f"{g.random.choice(EXACT_UNARY)}({x.name})", x.exact)


def jump(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.exact and v.tensor.is_floating_point())
    return x and (f"{g.random.choice(JUMPS)}({x.name})", True)


def arithmetic(g: Grower) -> Proposal:
    a, b = g.pick(), g.pick()
    if a is None or b is None:
        return None
    op = g.random.choice(("+", "-", "*"))
    exact = (
        a.exact and b.exact and not (a.tensor.is_floating_point() or b.tensor.is_floating_point())
    )
    return f"{a.name} {op} {b.name}", exact


def with_number(g: Grower) -> Proposal:
    x = g.pick()
    number = g.random.choice((2, 3, -1, 0.5, 1.25))
    op = g.random.choice(("+", "-", "*", "/"))
    return x and (f"{x.name} {op} {number}", False)


def division(g: Grower) -> Proposal:
    a, b = g.pick_float(), g.pick_float()
    return a and b and (f"{a.name} / ({b.name}.abs() + 1)", False)


def extremum(g: Grower) -> Proposal:
    a, b = g.pick_float(), g.pick_float()
    if a is None or b is None:
        return None
    return (
        f"{g.random.choice(('torch.maximum', 'torch.minimum'))}({a.name}, {b.name})",
        a.exact and b.exact,
    )


def compare(g: Grower) -> Proposal:
    a, b = g.pick(lambda v: v.exact), g.pick(lambda v: v.exact)
    return a and b and (f"{g.random.choice(COMPARISONS)}({a.name}, {b.name})", True)


def where(g: Grower) -> Proposal:
    c = g.pick(lambda v: str(v.tensor.dtype) == "torch.bool")
    a, b = g.pick_float(), g.pick_float()
    if c is None or a is None or b is None:
        return None
    return f"torch.where({c.name}, {a.name}, {b.name})", a.exact and b.exact


def clamp(g: Grower) -> Proposal:
    x = g.pick_float()
    return x and (
        f"{x.name}.clamp({g.random.choice((-1, -0.5))}, {g.random.choice((0.5, 2))})",
        x.exact,
    )


def cast(g: Grower) -> Proposal:
    x = g.pick()
    if x is None:
        return None
    target = g.random.choice(("float32", "bfloat16", "int64", "int32", "bool"))
    if target in ("int64", "int32", "bool") and not x.exact:
        return None
    return f"{x.name}.to(torch.{target})", x.exact


def reduce(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    if x is None:
        return None
    dims = sorted(g.random.sample(range(x.tensor.dim()), g.random.randint(1, x.tensor.dim())))
    keep = g.random.choice((True, False))
    op = g.random.choice(REDUCTIONS)
    return f"{op}({x.name}, dim={dims}, keepdim={keep})", x.exact and op.startswith("torch.am")


def variance(g: Grower) -> Proposal:
    x = g.pick(
        lambda v: v.tensor.is_floating_point() and v.tensor.dim() > 0 and v.tensor.shape[-1] > 1
    )
    return x and (f"{x.name}.var(dim=-1, keepdim=True, correction={g.random.randint(0, 1)})", False)


def argmax(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.exact and v.tensor.is_floating_point() and v.tensor.dim() > 0)
    return x and (f"{x.name}.argmax(dim={g.dim(x)})", True)


def softmax(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    return x and (
        f"{g.random.choice(('torch.softmax', 'torch.log_softmax'))}({x.name}, dim={g.dim(x)})",
        False,
    )


def norm(g: Grower) -> Proposal:
    x = g.pick(
        lambda v: v.tensor.is_floating_point() and v.tensor.dim() > 0 and v.tensor.shape[-1] > 1
    )
    if x is None:
        return None
    return f"F.layer_norm({x.name}, [{x.tensor.shape[-1]}])", False


def cumsum(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    return x and (f"torch.cumsum({x.name}, dim={g.dim(x)})", False)


def matmul(g: Grower) -> Proposal:
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


def linear(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    if x is None:
        return None
    k = x.tensor.shape[-1]
    w = g.pick(
        lambda v: (
            v.tensor.dtype == x.tensor.dtype and v.tensor.dim() == 2 and v.tensor.shape[1] == k
        )
    )
    return w and (f"F.linear({x.name}, {w.name})", False)


def view(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.dim() > 0)
    if x is None:
        return None
    t = x.tensor
    d, size = g.dim(x), 0
    size = t.shape[d]
    forms = [
        f"{x.name}.reshape(-1)",
        f"{x.name}.unsqueeze({d})",
        f"{x.name}.squeeze()",
        f"{x.name}.flip({d})",
        f"{x.name}.transpose({d}, {g.dim(x)})",
        f"{x.name}.contiguous()",
        f"{x.name}.expand({[2, *t.shape]})",
    ]
    if size > 1:
        start = g.random.randrange(size)
        step = g.random.choice((1, 1, 2, 3))
        forms += [
            f"{x.name}.narrow({d}, {start}, {size - start})",
            f"{x.name}.select({d}, {start})",
            f"torch.roll({x.name}, {start}, {d})",
            f"{x.name}.repeat_interleave(2, dim={d})",
            f"{x.name}.split({start or 1}, dim={d})[0]",
            f"{x.name}.movedim({d}, 0)[::{step}]",
        ]
    return g.random.choice(forms), x.exact


def join(g: Grower) -> Proposal:
    a = g.pick(lambda v: v.tensor.dim() > 0)
    if a is None:
        return None
    b = g.pick(lambda v: v.tensor.dtype == a.tensor.dtype and v.tensor.dim() == a.tensor.dim())
    form = g.random.choice(("torch.cat([{}, {}], dim={})", "torch.stack([{}, {}], dim={})"))
    return b and (form.format(a.name, b.name, g.dim(a)), a.exact and b.exact)


def pad(g: Grower) -> Proposal:
    x = g.pick_float(rank=1)
    return x and (
        f"F.pad({x.name}, ({g.random.randint(0, 2)}, {g.random.randint(0, 3)}), value=0.5)",
        x.exact,
    )


def triangle(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.is_floating_point() and v.tensor.dim() >= 2)
    return x and (
        f"torch.{g.random.choice(('tril', 'triu'))}({x.name}, {g.random.randint(-1, 2)})",
        x.exact,
    )


def index(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.dim() > 0 and min(v.tensor.shape) > 0)
    if x is None:
        return None
    d = g.dim(x)
    picks = [g.random.randrange(x.tensor.shape[d]) for _ in range(g.random.randint(1, 4))]
    return f"{x.name}.index_select({d}, torch.tensor({picks}, device={x.name}.device))", x.exact


def write(g: Grower) -> Proposal:
    """Writes in place into a copy, also through a view."""
    x = g.pick(
        lambda v: v.tensor.is_floating_point() and v.tensor.dim() > 0 and v.tensor.shape[0] > 1
    )
    form = g.random.choice(
        (
            "{}.clone().mul_(2)",
            "{0}.clone().index_fill_(0, torch.tensor([0], device={0}.device), 1.0)",
            "{}.clone().add_(1).clamp_(-1, 1)",
        )
    )
    return x and (form.format(x.name), False)


def convolution(g: Grower) -> Proposal:
    x = g.pick(
        lambda v: v.tensor.is_floating_point() and v.tensor.dim() == 4 and v.tensor.shape[1] > 0
    )
    if x is None:
        return None
    c = x.tensor.shape[1]
    w = g.pick(
        lambda v: (
            v.tensor.dtype == x.tensor.dtype and v.tensor.dim() == 4 and v.tensor.shape[1] == c
        )
    )
    if w is None:
        return None
    return (
        f"F.conv2d({x.name}, {w.name}, stride={g.random.randint(1, 2)}, "
        f"padding={g.random.randint(0, 2)}) * 0.1",
        False,
    )


def pooling(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.is_floating_point() and v.tensor.dim() == 4)
    form = g.random.choice(
        (
            "F.max_pool2d({}, 2)",
            "F.avg_pool2d({}, 2)",
            "F.adaptive_avg_pool2d({}, 1)",
            "F.max_pool2d({}, 3, stride=2, padding=1)",
        )
    )
    return x and (form.format(x.name), "max" in form and x.exact)


OPERATIONS = (
    smooth,
    guarded,
    exact_unary,
    jump,
    arithmetic,
    arithmetic,
    with_number,
    division,
    extremum,
    compare,
    where,
    clamp,
    cast,
    reduce,
    reduce,
    variance,
    argmax,
    softmax,
    norm,
    cumsum,
    matmul,
    matmul,
    linear,
    view,
    view,
    view,
    join,
    pad,
    triangle,
    index,
    write,
    convolution,
    pooling,
)
