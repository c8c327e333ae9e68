"""Functions and inputs with which capture and backend are tested."""

from __future__ import annotations

import torch
import torch.nn.functional as F

A = torch.randn(4, 6)
B = torch.randn(6, 5)
X = torch.randn(2, 3, 8, 8)
I64 = torch.tensor([[0, 2, 1], [3, 3, 0]])

PURE = {
    "elementwise": (lambda x: (x * 2 + 1).sigmoid() - x.exp().log1p(), (A,)),
    "reflected scalars": (lambda x: 1.0 - x / 3 + 2**x, (A,)),
    "whole numbers divided": (
        lambda x: tuple(torch.div(x, y, rounding_mode="trunc") for y in (1, 2, 3, -1, -2, -3)),
        (torch.arange(-9, 10),),
    ),
    "matmul": (lambda x, y: x @ y, (A, B)),
    "matmul method": (lambda x, y: x.matmul(y).relu(), (A, B)),
    "batched matmul": (torch.matmul, (torch.randn(2, 3, 4, 5), torch.randn(3, 5, 2))),
    "vector matmul": (torch.matmul, (A, torch.randn(6))),
    "linear": (F.linear, (A, torch.randn(3, 6), torch.randn(3))),
    "linear without bias": (lambda x, w: F.linear(x, w), (A, torch.randn(3, 6))),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b, 1e-3), (A, A[0], A[1])),
    "rms norm": (lambda x, w: F.rms_norm(x, (6,), w), (A, A[0])),
    "group norm": (lambda x: F.group_norm(torch.cat([x, x], 1), 3), (X,)),
    "batch norm": (
        lambda x, m, v: F.batch_norm(x, m, v, eps=1e-2),
        (X, torch.randn(3), torch.rand(3)),
    ),
    "attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        (torch.randn(2, 2, 5, 4),),
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(
            F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1).relu(), w.mT, None, 3
        ),
        (X, torch.randn(X.shape[1], X.shape[1], 4, 3)),
    ),
    "transposed convolution of groups": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 0, 2),
        (torch.randn(2, 6, 9), torch.randn(6, 2, 5), torch.randn(4)),
    ),
    "attention of one key head": (
        lambda q, k, m: F.scaled_dot_product_attention(q, k, k + 1, m),
        (torch.randn(2, 3, 5, 4), torch.randn(2, 1, 6, 4), torch.randn(5, 6)),
    ),
    "convolution": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        (X, torch.randn(4, 3, 3, 3), torch.randn(4)),
    ),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (X,)),
    "softmax": (lambda x: F.softmax(x, -1).log_softmax(0), (A,)),
    "views": (
        lambda x: (x.view(2, 12), x.t(), x[1:, ::2], x.unsqueeze(0).expand(3, -1, -1)),
        (A,),
    ),
    "reshape that copies": (lambda x: x.t().reshape(3, 8), (A,)),
    "contiguous that is free": (lambda x: x.contiguous(), (A,)),
    "to that is free": (lambda x: x.to(torch.float32), (A,)),
    "to that converts": (lambda x: x.to(torch.bfloat16).float(), (A,)),
    "split and chunk": (lambda x: (*x.split(4, 1), *x.chunk(2)), (A,)),
    "unbind": (lambda x: x.unbind(0), (A,)),
    "stack and cat": (lambda x: torch.stack([x, torch.cat([x[:2], x[2:]])]), (A,)),
    "gather": (lambda x, i: x.gather(0, i[:, :2]), (A, I64)),
    "index": (lambda x, i: x[i], (A, I64)),
    "index with slices": (lambda x, i: x[:, i[0]][..., None], (A, I64)),
    "embedding": (lambda w, i: F.embedding(i, w), (A, I64)),
    "one hot": (lambda i: F.one_hot(i, 5), (I64,)),
    "where": (lambda x: torch.where(x > 0, x, 0.5), (A,)),
    "masked fill": (lambda x: x.masked_fill(x < 0, float("-inf")), (A,)),
    "tril of ones": (lambda x: torch.ones(4, 4, device=x.device).tril() @ x, (A,)),
    "arange": (lambda x: x + torch.arange(6, device=x.device), (A,)),
    "full": (lambda x: torch.full((2, 2), 3.5, device=x.device) + x.new_zeros(2, 2), (A,)),
    "constant tensor": (lambda x: x * torch.tensor([1.0, 2, 3, 4, 5, 6], device=x.device), (A,)),
    "cumsum": (lambda i: i.cumsum(1) - 1, (I64,)),
    "topk": (lambda x: x.topk(2), (A,)),
    "max with indices": (lambda x: x.max(1), (A,)),
    "variance": (lambda x: torch.var_mean(x, 1, keepdim=True), (A,)),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ki", x, y), (A, B)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (X,)),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0), (A,)),
    "dropout in eval": (lambda x: F.dropout(x, 0.5, False) + 1, (A,)),
    "flip and roll": (lambda x: x.flip(0).roll(1, 1), (A,)),
    "none and numbers": (lambda x: (x + 1, None, 3, 2.5, True), (A,)),
    "nested result": (lambda x: {"a": [x + 1, (x, x)], "b": x.shape[0]}, (A,)),
    "same result twice": (lambda x: (lambda y: (y, y, y.t()))(x + 1), (A,)),
    "scalar argument": (lambda x, n: x * n + n, (A, 3)),
    "float argument": (lambda x, f: x * f, (A, 0.1)),
    "bool argument": (lambda x, b: x + 1 if b else x - 1, (A, True)),
    "zero-dim tensor": (lambda x, s: x * s, (A, torch.tensor(2.0))),
    "zero-dim promotion": (lambda i, s: i * s, (I64, torch.tensor(1.5))),
    "empty": (lambda x: x[:0] + 1, (A,)),
    "non-contiguous": (lambda x: x + x.clone(), (torch.randn(6, 4).t(),)),
    "preserved strides": (lambda x: torch.exp(x), (X.to(memory_format=torch.channels_last),)),
    "mixed dtypes": (lambda x, i: x[:2, :3] + i, (A, I64)),
    "repeated input": (lambda x: torch.add(x, x), (A,)),
    "comparison chain": (lambda x: ((x > 0) & (x < 1)) | ~(x == x), (A,)),
    "float64": (lambda x: x.double().sum(), (A,)),
}


def add_in_place(x):
    x += 1
    return x * 2


def write_slice(x, y):
    x[1:3, 0] = y
    return x.sum()


def write_through_view(x):
    x.view(-1)[::2].mul_(3)
    return x + 1


def cache_update(cache, position, new):
    cache.index_copy_(1, position, new)
    return cache[:, :4] @ new.transpose(1, 2)


def local_writes(x):
    y = torch.zeros(4, 6, device=x.device)
    y[1] = x[0]
    y.add_(x)
    return y, y.t()


def relu_in_place(x):
    return F.relu(x + 1, inplace=True) + 1


def returns_written_input(x):
    x.mul_(2)
    return x


def copy_into(x, y):
    x.copy_(y.t())
    return y + 1


WRITES = {
    "add in place": (add_in_place, (A,)),
    "slice assignment": (write_slice, (A, torch.tensor(5.0))),
    "through a view": (write_through_view, (A,)),
    "index_copy_ (key/value cache)": (
        cache_update,
        (torch.zeros(2, 8, 4), torch.tensor([2]), torch.randn(2, 1, 4)),
    ),
    "only to own tensors": (local_writes, (A,)),
    "relu in place": (relu_in_place, (A,)),
    "written input returned": (returns_written_input, (A,)),
    "copy_": (copy_into, (A, torch.randn(6, 4))),
    "masked_fill_": (lambda x: x.masked_fill_(x > 0, 0.0).sum(), (A,)),
    "iadd on intermediate": (lambda x: (lambda y: y.__iadd__(x))(x * 2), (A,)),
    "non-contiguous": (add_in_place, (torch.randn(6, 4).t(),)),
}
