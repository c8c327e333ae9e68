"""Lines that write in place: into inputs, into views of them, into results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations import Proposal
    from programs import Grower

# {0} is the target, {1} another value, {n} a position in dimension 0 of the target.
FORMS = (
    "{0}.add_(1)",
    "{0}.mul_(2)",
    "{0}.mul_(-1).clamp_(-1, 1)",
    "{0}.add_({1})",
    "{0}.copy_({1})",
    "{0}.fill_(0.5)",
    "{0}.zero_()",
    "{0}.relu_()",
    "{0}.sigmoid_()",
    "{0}.masked_fill_({0} > 0.5, 1)",
    "{0}[{n}:].mul_(0.5)",
    "{0}[{n}].copy_({1})",
    "{0}[::2].add_({1})",
    "{0}[{n}].fill_(1)",
    "{0}.transpose(0, -1).add_({1})",
    "{0}.select(-1, 0).zero_()",
    "{0}.view(-1)[::3].neg_()",
    "{0}.index_fill_(0, torch.tensor([{n}], device={0}.device), 1)",
    "{0}.index_copy_(0, torch.tensor([{n}], device={0}.device), {0}[:1] * 2)",
    "{0}.index_add_(0, torch.tensor([{n}], device={0}.device), {0}[:1])",
    "{0}.index_put_((torch.tensor([{n}, -1], device={0}.device),), {0}[:1] * 2)",
    "{0}.masked_fill_({0} > 0.5, 2).index_put_(({0} > 1,), {0}.new_zeros(1))",
)
# The result of these is bit-equal if the operands are.
EXACT = ("copy_", "fill_", "zero_", "relu_", "neg_")


def write(g: Grower) -> Proposal:
    """Writes into any value: an input, a view of one, a result."""
    x = g.pick(lambda v: v.tensor.dim() > 0 and v.tensor.shape[0] > 0)
    y = g.pick()
    if x is None or y is None:
        return None
    form = g.random.choice(FORMS)
    if ">" in form and not x.exact:
        return None
    line = form.format(x.name, y.name, n=g.random.randrange(x.tensor.shape[0]))
    exact = x.exact and ("{1}" not in form or y.exact)
    exact = exact and any(f".{name}" in form for name in EXACT)
    return line, exact, x.name


def write_copy(g: Grower) -> Proposal:
    """Writes into a copy."""
    x = g.pick(lambda v: v.is_float and v.tensor.dim() > 0 and v.tensor.shape[0] > 1)
    form = g.random.choice(
        (
            "{}.clone().mul_(2)",
            "{0}.clone().index_fill_(0, torch.tensor([0], device={0}.device), 1.0)",
            "{}.clone().add_(1).clamp_(-1, 1)",
            "{0}.contiguous().clone().as_strided((1, 2), (1, 1)).add_(1)",
        )
    )
    return x and (form.format(x.name), False)


OPERATIONS = (write, write, write_copy)
