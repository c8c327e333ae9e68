"""Functions and inputs of test_common_behaviours.py: what compilers of PyTorch programs often get
wrong, by subject. A row is a name, a function and its inputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

aten = torch.ops.aten
Row = tuple[Any, ...]


def tensor(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(sizes) + sum(sizes))
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 10, sizes, generator=generator).to(dtype)


A, B, V = tensor(4, 6), tensor(6, 5), tensor(6)
C, IMAGE = tensor(2, 3, 4), tensor(2, 4, 9, 7)
I64, I32, U8, I8 = (
    tensor(4, 6, dtype=t) for t in (torch.int64, torch.int32, torch.uint8, torch.int8)
)
MASK, NONE = tensor(4, 6, dtype=torch.bool), torch.empty(0, 6)
HALF, BRAIN = tensor(4, 6, dtype=torch.float16), tensor(4, 6, dtype=torch.bfloat16)
ROWS = torch.tensor([3, 0, 2, 0])
TIES = torch.tensor([[3.0, 1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [-1.0, 0.0, -0.0, 0.0]])
EDGES = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
SPECIAL = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.5, -2.5, 0.5])

INDEXING: dict[str, Row] = {
    "index of rows": (lambda x, i: x[i], A, ROWS),
    "index of columns": (lambda x, i: x[:, i], A, ROWS),
    "index of pairs": (lambda x, i: x[i, i + 1], A, ROWS),
    "index with a gap": (lambda x, i: x[i[:2], :, i[2:]], tensor(4, 3, 4), ROWS),
    "negative index": (lambda x, i: x[-i - 1], A, ROWS),
    "index by a mask made inside": (lambda x: torch.where(x > 0, x, x.new_zeros(())), A),
    "index_put": (lambda x, i, v: x.index_put((i,), v), A, ROWS, tensor(4, 6) + 1),
    "index_put that adds": (
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        A,
        ROWS,
        tensor(4, 6),
    ),
    "index_put of one number": (lambda x, i: x.index_put((i,), x.new_tensor(7.0)), A, ROWS),
    "index_put in place": (lambda x, i: x.index_put_((i,), x.new_zeros(6)), A, ROWS),
    "assignment to rows": (lambda x, i: x.__setitem__(i, 3.0), A, ROWS),
    "assignment by a mask": (lambda x, m: x.__setitem__(m, 0.0), A, MASK),
    "assignment to a slice of a slice": (lambda x: x[1:][:, ::2].fill_(5), A),
    "index_add": (lambda x, i, v: x.index_add(0, i, v, alpha=2), A, ROWS, tensor(4, 6)),
    "index_copy": (lambda x, i: x.index_copy(0, i[1:3], x[:2]), A, ROWS),
    "index_fill": (lambda x, i: x.index_fill(1, i, -1.0), A, ROWS),
    "index_select of nothing": (lambda x, i: x.index_select(0, i[:0]), A, ROWS),
    "gather": (lambda x, i: x.gather(1, i.abs() % 6), A, I64),
    "gather of fewer rows": (lambda x, i: x.gather(1, i[:2, :3].abs() % 6), A, I64),
    "scatter": (lambda x, i: x.scatter(1, i[:, :1].abs() % 6, 9.0), A, I64),
    "scatter_add": (lambda x, i, v: x.scatter_add(0, i.abs() % 4, v), A, I64, tensor(4, 6)),
    "scatter_reduce amax": (
        lambda x, i, v: x.scatter_reduce(0, i.abs() % 4, v, "amax"),
        A,
        I64,
        tensor(4, 6),
    ),
    "scatter_reduce mean": (
        lambda x, i, v: x.scatter_reduce(0, i.abs() % 4, v, "mean", include_self=False),
        A,
        I64,
        tensor(4, 6),
    ),
    "scatter_reduce prod": (
        lambda x, i, v: x.scatter_reduce(0, i.abs() % 4, v, "prod"),
        A,
        I64,
        tensor(4, 6),
    ),
    "take_along_dim": (lambda x: torch.take_along_dim(x, x.argsort(1), 1), A),
    "take": (lambda x, i: x.take(i), A, ROWS),
    "masked_fill": (lambda x, m: x.masked_fill(m, -3.5), A, MASK),
    "masked_fill by a broadcast mask": (lambda x, m: x.masked_fill(m[:, :1], 2), A, MASK),
    "masked_fill of integers": (lambda x, m: x.masked_fill(m, 3), I64, MASK),
    "masked_fill in place of a view": (lambda x, m: x.t().masked_fill_(m.t(), 1), A, MASK),
    "masked_scatter": (lambda x, m: x.masked_scatter(m, x.flip(0)), A, MASK),
    "slice_scatter": (lambda x: x.slice_scatter(x[:2] * 2, 0, 1, 3), A),
    "slice_scatter with a step": (lambda x: x.slice_scatter(x[:, :3] * 2, 1, 0, 6, 2), A),
    "slice_scatter to the end": (lambda x: x.slice_scatter(x[:, :2], 1, -2), A),
    "select_scatter": (lambda x: x.select_scatter(x[0] + 1, 0, -1), A),
    "diagonal_scatter": (lambda x: x.diagonal_scatter(x[0, :4] * 0, 0), A),
    "slices beyond the ends": (lambda x: (x[-9:9], x[3:1], x[:, 10:]), A),
    "embedding": (lambda w, i: F.embedding(i, w), A, ROWS),
    "embedding with padding": (lambda w, i: F.embedding(i, w, padding_idx=0), A, ROWS),
    "embedding_bag sum": (
        lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 1], device=i.device), mode="sum"),
        A,
        ROWS,
    ),
    "embedding_bag mean of rows": (
        lambda w, i: F.embedding_bag(i.view(2, 2), w, mode="mean"),
        A,
        ROWS,
    ),
    "embedding_bag max": (lambda w, i: F.embedding_bag(i.view(2, 2), w, mode="max"), A, ROWS),
    "one_hot": (lambda i: F.one_hot(i, 5), ROWS),
    "nonzero's number": (lambda x: (x > 0).sum(), A),
}

VIEWS: dict[str, Row] = {
    "transpose and view": (lambda x: x.t().reshape(-1), A),
    "expand": (lambda x: x[:, :1].expand(4, 3) + 1, A),
    "expand of a scalar": (lambda x: x.sum().expand(2, 3), A),
    "expand and sum": (lambda x: x.unsqueeze(0).expand(3, 4, 6).sum(0), A),
    "as_strided": (lambda x: x.as_strided((3, 2), (6, 2), 1) + 1, A),
    "as_strided that overlaps": (lambda x: x.as_strided((4, 4), (1, 1)) * 2, A),
    "unfold": (lambda x: x.unfold(1, 3, 2), A),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-2)), A),
    "movedim": (lambda x: x.movedim(0, -1) * 2, C),
    "flip and roll": (lambda x: (x.flip(0, 1), x.roll(2, 1), x.roll((1, -1), (0, 1))), A),
    "rot90": (lambda x: torch.rot90(x, 1, (0, 1)), A),
    "chunk, unequal": (lambda x: x.chunk(4, 1), A),
    "split by sizes": (lambda x: x.split([1, 0, 3], 0), A),
    "tensor_split": (lambda x: torch.tensor_split(x, 4, 1), A),
    "unbind": (lambda x: x.unbind(1)[2] + 1, A),
    "squeeze": (lambda x: (x[:, :1].squeeze(1), x.squeeze(0), x[:1].squeeze()), A),
    "view of another size": (lambda x: x.view(2, 2, 3, 2).permute(0, 2, 1, 3).flatten(1), A),
    "view_as_real": (lambda x: torch.stack([x, x], -1).sum(-1), A),
    "strided input": (lambda x: x * 2 + 1, tensor(9, 8)[1::2, ::3]),
    "transposed input": (lambda x: x + 1, A.t()),
    "huge stride": (lambda x: x.relu(), tensor(4100).as_strided((3, 2), (1999, 7))),
    "channels_last": (lambda x: F.relu(x) + 1, IMAGE.to(memory_format=torch.channels_last)),
    "to channels_last": (lambda x: x.to(memory_format=torch.channels_last) * 2, IMAGE),
    "contiguous of a permutation": (lambda x: x.permute(2, 0, 1).contiguous() + 1, C),
    "repeat": (lambda x: (x.repeat(2, 1), x.repeat(2, 1, 1), x.tile(3)), A),
    "repeat_interleave": (lambda x: (x.repeat_interleave(3, 0), x.repeat_interleave(2)), A),
    "pixel_shuffle": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_shuffle(x, 1)), IMAGE),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[:, :, :8, :6], 2), IMAGE),
    "cat": (lambda x: torch.cat([x, x + 1, x[:1]]), A),
    "cat with nothing": (lambda x, e: torch.cat([e, x, e]), A, NONE),
    "cat with the old nothing": (lambda x, e: torch.cat([e[:, 0], x]), A, NONE),
    "cat that promotes": (lambda x, i: torch.cat([x, i]), A, I64),
    "cat of one": (lambda x: torch.cat([x]), A),
    "cat of views of one tensor": (lambda x: torch.cat([x[:, ::2], x[:, 1::2]], 1), A),
    "cat of many": (lambda x: torch.cat([x * i for i in range(20)], 1), A),
    "stack": (lambda x: (torch.stack([x, x * 2], 1), torch.stack([x, x], -1)), A),
    "stack of nothing": (lambda e: torch.stack([e, e]), NONE),
    "hstack, vstack and dstack": (
        lambda x: (torch.hstack([x, x]), torch.vstack([x, x]), torch.dstack([x, x])),
        A,
    ),
    "block_diag": (lambda x: torch.block_diag(x[:2, :2], x[2:, :1]), A),
    "meshgrid": (lambda v: torch.meshgrid(v, v[:3], indexing="ij"), V),
    "tril and triu": (lambda x: (x.tril(), x.triu(1), x.tril(-2)), A),
    "constant_pad_nd": (lambda x: F.pad(x, (1, 2, 0, 3), value=2.5), A),
    "pad by less than nothing": (lambda x: F.pad(x, (-1, 2, 1, -2)), A),
    "pad of integers": (lambda x: F.pad(x, (2, 1), value=7), I64),
    "pad of truth values": (lambda x: F.pad(x, (1, 1), value=True), MASK),
    "reflection_pad": (lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), IMAGE),
    "replication_pad": (lambda x: F.pad(x, (2, 1, 1, 2), mode="replicate"), IMAGE),
    "circular pad": (lambda x: F.pad(x, (2, 1, 1, 2), mode="circular"), IMAGE),
}

NUMBERS: dict[str, Row] = {
    "truth values and integers": (lambda m, i: (m + i, m * i, i - m.int()), MASK, I64),
    "truth values and floats": (lambda m, x: (m * x, x + m, m / 2), MASK, A),
    "integers and floats": (lambda i, x: (i * x, i + 0.5, x - i), I64, A),
    "integers divided": (lambda i: (i / 2, i // 2, i % 3), I64),
    "unsigned bytes wrap": (lambda u: (u - 5, u * 30, -u), U8),
    "signed bytes wrap": (lambda i: (i * 30, i + 120, i.abs()), I8),
    "bytes and bytes": (lambda u, i: (u + i, u * i), U8, I8),
    "sum of bytes": (lambda u: (u.sum(), u.sum(0), u.prod(1)), U8),
    "sum of truth values": (lambda m: (m.sum(), m.sum(1), m.float().mean()), MASK),
    "any and all": (lambda m: (m.any(), m.all(1), m.any(0)), MASK),
    "any of nothing": (lambda e: (e.any(), e.all(), e.sum(), e.prod()), NONE),
    "divided, floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), A * 3, A.flip(0)),
    "divided, trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), A * 3, A.flip(0)),
    "integers divided, floor": (
        lambda i: torch.div(i, i.flip(0) * 2 + 1, rounding_mode="floor"),
        I64,
    ),
    "integers divided, trunc": (
        lambda i: torch.div(i, i.flip(0) * 2 + 1, rounding_mode="trunc"),
        I32,
    ),
    "remainders": (lambda x: (x % 0.7, torch.fmod(x, 0.7), torch.remainder(x, -0.7)), A),
    "remainders of integers": (lambda i: (i % 4, torch.fmod(i, 4), i % -4), I64),
    "bits": (lambda i: (i & 6, i | 3, i ^ 5, ~i), I64),
    "bits of truth values": (lambda m: (m & m.flip(0), m | ~m, m ^ m.flip(1)), MASK),
    "shifts": (lambda i: (i << 2, i >> 1, torch.bitwise_left_shift(i, 3)), I32),
    "powers": (lambda x: (x**2, x**3, x.abs() ** 0.5, 2**x, x**-1), A),
    "powers of integers": (lambda i: (i**2, i**3, 2 ** i.abs()), I64),
    "rounded": (lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac()), A * 3),
    "rounded ties": (lambda x: x.round(), torch.arange(-5, 6) / 2),
    "rounded to decimals": (lambda x: x.round(decimals=2), A),
    "infinities": (lambda x: (x + 1, x * 0, x.relu(), x.clamp(-1, 1), x.sign()), SPECIAL),
    "nan in maxima": (lambda x: (torch.maximum(x, x.flip(0)), torch.fmax(x, x.flip(0))), SPECIAL),
    "nan in minima": (lambda x: (torch.minimum(x, x.flip(0)), torch.fmin(x, x.flip(0))), SPECIAL),
    "nan_to_num": (lambda x: (x.nan_to_num(), x.nan_to_num(1.0, 2.0, 3.0)), SPECIAL),
    "comparisons with nan": (lambda x: (x == x, x < 1, x.isnan(), x.isinf(), x != 0), SPECIAL),
    "where promotes": (lambda m, x, i: torch.where(m, x, i), MASK, A, I64),
    "where of numbers": (lambda m: (torch.where(m, 1.0, 0.0), torch.where(m, 3, 2)), MASK),
    "clamp": (lambda x: (x.clamp(min=0), x.clamp(max=0.5), x.clamp(0.5, -0.5)), A),
    "clamp by tensors": (lambda x, v: x.clamp(v - 1, v), A, V),
    "clamp of integers": (lambda i: i.clamp(-2, 3), I64),
    "copysign": (lambda x: (torch.copysign(x, x.flip(0)), x.signbit()), SPECIAL),
    "heaviside and sgn": (lambda x, v: (torch.heaviside(x, v), x.sgn()), A, V),
    "lerp": (lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, x)), A, A.flip(0)),
    "addcmul and addcdiv": (
        lambda x: (torch.addcmul(x, x, x, value=0.5), torch.addcdiv(x, x, x.exp(), value=2)),
        A,
    ),
    "log and its kind": (lambda x: (x.abs().log1p(), x.expm1(), x.abs().log2(), x.logit(0.1)), A),
    "xlogy and logaddexp": (
        lambda x: (torch.xlogy(x.abs(), x.abs()), torch.logaddexp(x, x.flip(0))),
        A,
    ),
    "angles": (lambda x: (torch.atan2(x, x.flip(0)), torch.hypot(x, x.flip(0))), A),
    "casts": (lambda x: (x.long(), x.int(), x.to(torch.int8), x.bool(), x.double()), A * 9),
    "casts of integers": (lambda i: (i.float(), i.half(), i.bool(), i.to(torch.uint8)), I64),
    "scalars of the graph": (lambda x: x * x.sum() + x[0, 0], A),
    "zero-dimensional": (lambda x: (x.sum() * 2, x.mean() + x.max()), A),
    "zero-dimensional integers promote": (lambda x, i: x + i.sum(), HALF, I64),
    "narrow": (lambda x: (x * 2 + 1, x.exp(), x.sum(1), x.softmax(1)), HALF),
    "narrower": (lambda x: (x * 2 + 1, x.exp(), x.sum(1), x.softmax(1)), BRAIN),
    "two narrow types": (lambda x, y: x + y, HALF, BRAIN),
    "narrow and wide": (lambda x, y: (x * y, x + 1.5), BRAIN, A),
    "doubles": (lambda x: (x * 2 + 1, x.sum(0), x @ x.t()), A.double()),
}

REDUCTIONS: dict[str, Row] = {
    "argmax over ties": (lambda x: (x.argmax(), x.argmax(0), x.argmax(1, keepdim=True)), TIES),
    "argmin over ties": (lambda x: (x.argmin(), x.argmin(0), x.argmin(1)), TIES),
    "argmax of nan": (lambda x: (x.argmax(), x.argmin()), SPECIAL),
    "argmax of integers": (lambda i: (i.argmax(1), i.argmin(0)), I64),
    "max over ties": (lambda x: x.max(1), TIES),
    "min over ties": (lambda x: x.min(0), TIES),
    "amax and amin": (lambda x: (x.amax((0, 1)), x.amin(1, keepdim=True), x.aminmax(dim=0)), A),
    "max of everything": (lambda x: (x.max(), x.min()), A),
    "median": (lambda x: x.median(1), tensor(3, 5)),
    "kthvalue": (lambda x: x.kthvalue(2, 1), A),
    "mode": (lambda i: i.mode(1).values, I64),
    "sort": (lambda x: torch.sort(x, 1), A),
    "stable sort of ties": (lambda x: torch.sort(x, dim=1, stable=True), TIES),
    "stable sort, descending": (
        lambda x: torch.sort(x, dim=1, descending=True, stable=True),
        TIES[:2],
    ),
    "argsort": (lambda x: x.argsort(dim=0, stable=True), A),
    "sort of truth values": (lambda m: torch.sort(m.int(), dim=1, stable=True), MASK),
    "topk": (lambda x: x.topk(3, 1), A),
    "topk, smallest": (lambda x: x.topk(2, 0, largest=False), A),
    "sums": (lambda x: (x.sum(), x.sum((0, 2)), x.sum(-1, keepdim=True), x.sum(())), C),
    "sum into another type": (
        lambda x, i: (x.sum(1, dtype=torch.float64), i.sum(dtype=torch.int32)),
        A,
        I64,
    ),
    "means": (lambda x: (x.mean(), x.mean((1, 2)), x.mean(0, True)), C),
    "mean of nothing": (lambda e: (e.mean(), e.sum(0), e.mean(1)), NONE),
    "products": (lambda x: (x.prod(), x.prod(1)), A),
    "variances": (lambda x: (x.var(), x.var(1, correction=0), x.std(0), *torch.var_mean(x, 1)), A),
    "variance of one": (lambda x: x[:, :1].var(1), A),
    "norms": (lambda x: (x.norm(), x.norm(1, 1), x.norm(torch.inf, 0), x.norm(3)), A),
    "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, 1))), A),
    "logsumexp of infinities": (lambda x: x[3:4].logsumexp(0), SPECIAL),
    "cumulative": (lambda x: (x.cumsum(0), x.cumprod(1), x.flip(0).cumsum(0)), A),
    "cumulative maxima": (lambda x: (*x.cummax(1), *x.cummin(0)), TIES),
    "cumulative maxima of NaN": (lambda x: (*x.cummax(0), *x.cummin(0)), SPECIAL),
    "cumulative of integers": (lambda i, m: (i.cumsum(1), m.cumsum(0)), I64, MASK),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), A),
    "count_nonzero": (lambda i: (i.count_nonzero(), i.count_nonzero(1)), I64),
    "bucketize": (
        lambda x, e: (torch.bucketize(x, e), torch.bucketize(x, e, right=True)),
        A,
        EDGES,
    ),
    "bucketize at the edges": (lambda e: torch.bucketize(e, e, out_int32=True), EDGES),
    "searchsorted": (lambda x, v: torch.searchsorted(x.sort(1)[0], v[:, :2].contiguous()), A, A),
    "histc": (lambda x: torch.histc(x, 5, -2, 2), A),
    "bincount": (lambda i: torch.bincount(i, minlength=6), ROWS),
    "unique of sorted": (lambda i: i.sort()[0].diff(), ROWS),
    "diff": (lambda x: (x.diff(), x.diff(2, 0)), A),
    "trace and dot": (lambda x, v: (x.trace(), v.dot(v), torch.outer(v, v)), A, V),
    "cdist": (lambda x, y: torch.cdist(x, y), tensor(3, 6), A),
    "cross": (lambda x: torch.linalg.cross(x, x.flip(0)), tensor(5, 3)),
    "reduction of a long row": (lambda x: (x.sum(1), x.amax(1), x.softmax(1)), tensor(2, 5001)),
    "reduction of long columns": (lambda x: (x.sum(0), x.argmax(0)), tensor(5001, 2)),
}

IMAGES: dict[str, Row] = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "max_pool2d with indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), IMAGE),
    "max_pool2d, dilated": (lambda x: F.max_pool2d(x, 2, 1, 0, 2), IMAGE),
    "max_pool2d, ceil_mode": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), C),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d, padding not counted": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        IMAGE,
    ),
    "avg_pool2d, divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "avg_pool2d, ceil_mode": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), IMAGE),
    "adaptive_avg_pool2d to more": (lambda x: F.adaptive_avg_pool2d(x, (11, 3)), IMAGE),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), IMAGE),
    "lp_pool": (lambda x: F.lp_pool2d(x.abs(), 2, 2), IMAGE),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest to fewer": (lambda x: F.interpolate(x, size=(4, 5)), IMAGE),
    "nearest-exact": (lambda x: F.interpolate(x, size=(5, 11), mode="nearest-exact"), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, size=(5, 11), mode="bilinear"), IMAGE),
    "bilinear, corners": (
        lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True),
        IMAGE,
    ),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), IMAGE),
    "linear": (lambda x: F.interpolate(x, size=7, mode="linear"), C),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        IMAGE,
        tensor(2, 3, 5, 2),
    ),
    "affine_grid": (lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=False), tensor(2, 2, 3)),
    "convolution of one pixel": (
        lambda x, w: F.conv2d(x, w[:, :, :1, :1]),
        IMAGE,
        tensor(3, 4, 2, 2),
    ),
    "convolution in groups": (lambda x, w: F.conv2d(x, w, groups=2), IMAGE, tensor(6, 2, 3, 3)),
    "convolution, uneven": (
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
        IMAGE,
        tensor(3, 4, 2, 3),
    ),
    "convolution of nothing": (lambda x, w: F.conv2d(x[:0], w), IMAGE, tensor(3, 4, 2, 2)),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1),
        IMAGE,
        tensor(4, 3, 3, 3),
    ),
    "fold and unfold": (lambda x: F.fold(F.unfold(x, 2), (9, 7), 2), IMAGE),
    "batch_norm": (lambda x, v: F.batch_norm(x, v[:4], v[:4].abs(), v[:4], None), IMAGE, V),
    "group_norm": (lambda x: F.group_norm(x, 2), IMAGE),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), IMAGE),
}

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

SUBJECTS = {
    "indexing": INDEXING, "views": VIEWS, "numbers": NUMBERS, "reductions": REDUCTIONS,
    "images": IMAGES, "writes": WRITES, "places": PLACES, "sizes": SIZES,
}  # fmt: skip
