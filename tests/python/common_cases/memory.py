"""Rows that write to inputs, whose inputs lie in memory in a special way, or whose sizes or results
are unusual."""

from __future__ import annotations

import torch

from .inputs import BRAIN, I64, MASK, NONE, ROWS, A, B, C, Row, V, tensor

WRITES: dict[str, Row] = {
    "input": (lambda x: x.add_(1), A),
    "input, then read": (lambda x: (x.mul_(2) + 1, x * 3), A),
    "input through a view": (lambda x: x.view(-1)[::3].zero_(), A),
    "input through two views": (lambda x: (x[0].add_(1), x[:, 0].mul_(2)), A),
    "input by a chain": (lambda x: x.add_(1).mul_(2).sub_(3).relu_(), A),
    "input and its old value": (lambda x: (x.clone(), x.neg_()), A),
    "copy_": (lambda x, y: x.copy_(y), A, A.flip(0)),
    "copy_ that converts": (lambda x, i: x.copy_(i), A, I64),
    "copy_ that broadcasts": (lambda x, v: x.copy_(v), A, V),
    "copy_ between views of one": (lambda x: x[0].copy_(x[1]), A),
    "swapped rows": (lambda x: (t := x[0].clone(), x[0].copy_(x[1]), x[1].copy_(t))[1], A),
    "fill_ and zero_": (lambda x, y: (x.fill_(3), y.zero_()), A, V),
    "fill_diagonal_": (lambda x: x.fill_diagonal_(9.0), A),
    "new memory": (lambda x: torch.zeros_like(x).add_(x).mul_(x), A),
    "empty, then filled": (lambda x: torch.empty_like(x).fill_(2) + x, A),
    "a column at a time": (lambda x: [x[:, i].mul_(i) for i in range(6)][-1], A),
    "integers": (lambda i: (i.add_(1), i.bitwise_and_(3)), I64),
    "truth values": (lambda m: m.logical_not_(), MASK),
    "narrow by a wide number": (lambda x: x.mul_(0.1).add_(1e-3), BRAIN),
    "result of a comparison": (lambda x, m: m.copy_(x > 0), A, MASK),
    "transposed input": (lambda x: x.t().add_(1), A),
    "input that is also returned": (lambda x: (x.add_(1), x, x[1:]), A),
    "scatter_": (lambda x, i: x.scatter_(1, i.abs() % 6, 0.5), A, I64),
    "index_add_": (lambda x, i: x.index_add_(0, i, x.clone()), A, ROWS),
    "clamp_ and friends": (lambda x: x.clamp_(-1, 1).sigmoid_().sqrt_(), A),
    "out=": (lambda x, y: torch.add(x, 1, out=y), A, A.flip(0)),
    "set by where": (lambda x: x.copy_(torch.where(x > 0, x, -x)), A),
    "triangle": (lambda x: x.tril_(), A),
    "foreach": (lambda x, y: torch._foreach_add_([x, y], 2.0), A, V),
    "nothing": (lambda e: e.add_(1), NONE),
}

# Inputs that keep their place in memory, and the memory that they share.
BASE, SQUARE = tensor(31), tensor(5, 5)
PLACES: dict[str, Row] = {
    "with a stride of 0": (lambda x: x + 1, V.expand(4, 6)),
    "from the middle of memory": (lambda x: x * 2, tensor(31)[3:20]),
    "that is not aligned": (lambda x: x.sum(0), tensor(25)[1:].view(4, 6)),
    "narrow input that is not aligned": (
        lambda x: x + x,
        tensor(26, dtype=torch.bfloat16)[1:25].view(4, 6),
    ),
    "two views of one memory": (lambda x, y: x + y[6:], BASE[:24].view(4, 6), BASE[7:19]),
    "an input and its transpose": (lambda x, y: (x.add_(1), y * 2), SQUARE, SQUARE.t()),
    "overlapping windows": (lambda x: x.sum(1), tensor(40).as_strided((6, 8), (4, 1), 3)),
}

SIZES: dict[str, Row] = {
    "nothing": (lambda e: (e + 1, e.relu(), e.t(), e.sum(1)), NONE),
    "product with nothing": (lambda e, w: e @ w, NONE, B),
    "product over nothing": (lambda x, w: x[:, :0] @ w[:0], A, B),
    "softmax of nothing": (lambda e: (e.softmax(1), e.softmax(0)), NONE),
    "one element": (lambda x: (x[:1, :1] + 1).sum(), A),
    "a scalar input": (lambda x: x.reshape(()) * 2, V[:1]),
    "five dimensions": (lambda x: x.permute(4, 2, 0, 1, 3).sum(1), tensor(2, 3, 2, 4, 2)),
    "broadcast of three": (lambda x, y: x[:, None, :] * y[None, :, :] + y[0], A, tensor(3, 6)),
    "product of a vector": (lambda x, v: (x @ v, v @ x.t(), v @ v), A, V),
    "batched product": (lambda x: (x @ x.transpose(1, 2), torch.einsum("bij,bkj->bik", x, x)), C),
    "baddbmm": (lambda x: torch.baddbmm(x[:, :, :3], x, x.transpose(1, 2), beta=0.5, alpha=2), C),
    "addmm of a row": (lambda x, w, v: torch.addmm(v[:5], x, w, beta=0), A, B, V),
    "linspace and arange": (
        lambda x: (torch.arange(6, device=x.device) * x, torch.linspace(0, 1, 6, device=x.device)),
        A,
    ),
    "arange by a step": (lambda x: torch.arange(5, -1, -0.5, device=x.device) + x[0, 0], A),
    "full_like and new_full": (lambda x: (torch.full_like(x, 7), x.new_full((2,), 3)), A),
    "eye": (lambda x: torch.eye(6, device=x.device) @ x.t(), A),
    "shape arithmetic": (lambda x: x.reshape(x.shape[0] * 2, -1) / x.numel(), A),
    "a list of results": (lambda x: [x, (x + 1, {"a": x * 2})], A),
    "a result twice": (lambda x: (y := x + 1, y, y[0]), A),
    "numbers among results": (lambda x: (x + 1, 3, 2.5, None), A),
    "no results": (lambda x: (), A),
    "unused input": (lambda x, y: x + 1, A, V),
    "same input twice": (lambda x: torch.where(x > 0, x, x) + x * x, A),
    "constant results": (lambda x: (x + 1, torch.ones(3, device=x.device)), A),
}
