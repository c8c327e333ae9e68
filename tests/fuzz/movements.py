"""Lines that view, copy, join and index elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations import Proposal
    from programs import Grower, Value

VIEWS = (
    "{x}.reshape(-1)",
    "{x}.ravel()",
    "{x}.flatten()",
    "{x}.unsqueeze({d})",
    "{x}.squeeze()",
    "{x}.squeeze({d})",
    "{x}.flip({d})",
    "{x}.transpose({d}, {e})",
    "{x}.swapaxes({d}, {e})",
    "{x}.movedim({d}, 0)",
    "{x}.movedim({d}, 0).contiguous()",
    "{x}.permute(*reversed(range({x}.dim())))",
    "{x}.contiguous()",
    "{x}.expand([2, *{x}.shape])",
    "torch.broadcast_to({x}, (2, *{x}.shape))",
    "{x}.repeat([2] + [1] * ({x}.dim() - 1))",
    "{x}.tile(2)",
    "{x}.reshape({x}.shape[0], -1)",
    "{x}.unflatten({d}, (1, -1))",
    "{x}.view_as({x}.detach())",
    "{x}.reshape_as({x}.detach())",
    "{x}.expand_as({x}.detach())",
    "torch.ops.aten.alias.default({x})",
    "{x}.narrow({d}, {n}, {size} - {n})",
    "{x}.select({d}, {n})",
    "torch.roll({x}, {n}, {d})",
    "torch.roll({x}, {n})",
    "{x}.repeat_interleave(2, dim={d})",
    "{x}.repeat_interleave(2)",
    "{x}.split({n} + 1, dim={d})[0]",
    # Functionalization does not treat this as a view: with any compiler, writes to a piece do not
    # reach {x}.
    "{x}.unsafe_split({n} + 1, dim={d})[0].clone()",
    "{x}.split([{n}, {size} - {n}], dim={d})[1]",
    "{x}.chunk(2, dim={d})[-1]",
    "{x}.unbind({d})[{n}]",
    "{x}.movedim({d}, 0)[::{step}]",
    "{x}.contiguous().as_strided((2, 2), (1, 2), 1)",
    "torch.select_scatter({x}.contiguous(), {x}.select({d}, 0), {d}, {n})",
    "torch.slice_scatter({x}.contiguous(), {x}.narrow({d}, 0, 1), {d}, {n}, {n} + 1)",
    "F.pad({x}, ({n}, 1), value=0.5)",
    "F.pad({x}, (1, -1))",
    "torch.gather({x}, {d}, torch.full_like({x}.narrow({d}, 0, 1), {n}, dtype=torch.int64))",
    "{x}.scatter({d}, torch.full_like({x}.narrow({d}, 0, 1), {n}, dtype=torch.int64),"
    " {x}.narrow({d}, 0, 1))",
    "{x}.scatter({d}, torch.full_like({x}.narrow({d}, 0, 1), {n}, dtype=torch.int64), 2)",
    "{x}.index_select({d}, torch.tensor([{n}, 0, {n}], device={x}.device))",
    "{x}[torch.tensor([0, -1], device={x}.device)]",
    "{x}.movedim({d}, 0)[torch.tensor([[{n}], [0]], device={x}.device)]",
)
MATRIX_VIEWS = (
    "torch.tril({x}, {k})",
    "torch.triu({x}, {k})",
    "{x}.mT",
    "{x}.flatten(-2)",
    "{x}.reshape(-1, {x}.shape[-1]).t()",
)


def values_of(g: Grower, x: Value) -> dict[str, object]:
    """The names that the forms above may use for a value with at least one dimension."""
    d = g.dim(x)
    size = x.tensor.shape[d]
    dims = sorted(g.random.sample(range(x.tensor.dim()), g.random.randint(1, x.tensor.dim())))
    return {
        "x": x.name,
        "d": d,
        "e": g.dim(x),
        "dims": dims,
        "keep": g.random.choice((True, False)),
        "size": size,
        "n": g.random.randrange(size) if size else 0,
        "step": g.random.choice((1, 2, 3)),
        "k": g.random.randint(1, max(1, min(size, 4))),
    }


def view(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.dim() > 0)
    return x and (g.random.choice(VIEWS).format(**values_of(g, x)), x.exact)


def matrix_view(g: Grower) -> Proposal:
    x = g.pick(lambda v: v.tensor.dim() >= 2)
    k = g.random.randint(-1, 2)
    return x and (g.random.choice(MATRIX_VIEWS).format(x=x.name, k=k), x.exact)


def join(g: Grower) -> Proposal:
    a = g.pick(lambda v: v.tensor.dim() > 0)
    if a is None:
        return None
    b = g.pick(lambda v: v.tensor.dim() == a.tensor.dim())
    form = g.random.choice(("torch.cat([{}, {}], dim={})", "torch.stack([{}, {}], dim={})"))
    return b and (form.format(a.name, b.name, g.dim(a)), a.exact and b.exact)


def lookup(g: Grower) -> Proposal:
    """Rows that are chosen by indices which the program computes."""
    i = g.pick(lambda v: v.exact and str(v.tensor.dtype) in ("torch.int64", "torch.int32"))
    x = g.pick(lambda v: v.tensor.dim() > 0 and v.tensor.shape[0] > 0)
    if i is None or x is None:
        return None
    n = x.tensor.shape[0]
    form = g.random.choice(
        (
            "{x}[{i} % {n}]",
            "{x}.index_select(0, ({i} % {n}).reshape(-1))",
            "F.embedding({i} % {n}, {x}.reshape({n}, -1))",
            "torch.ops.aten.embedding.default({x}.reshape({n}, -1), {i} % {n})",
            "{x}[({i} % {n}).reshape(-1), ...]",
        )
    )
    return form.format(x=x.name, i=i.name, n=n), x.exact


OPERATIONS = (view, view, view, view, matrix_view, join, lookup)
