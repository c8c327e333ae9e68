"""Autocast on hpu: which operator is cast to what, in eager calls and in graphs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from processes import output_of

from habana_frameworks.torch.hpu import autocast_lists
from habana_frameworks.torch.internal.flag_table import AUTOCAST_LISTS

LOWER, FP32 = AUTOCAST_LISTS
BF16, F32 = torch.bfloat16, torch.float32
_generator = torch.Generator().manual_seed(0)


def made(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    """Numbers between 0.1 and 0.9, in the domain of every operator here."""
    values = torch.rand(shape, generator=_generator) * 0.8 + 0.1
    return values.to(dtype).to("hpu")


# These have another type than the operator's list says, or both types where that list is PROMOTE.
X, Y = made(4, 4), made(4, 4)
V, IMAGE, FILTER = made(4), made(1, 2, 4, 4), made(2, 2, 2, 2)
LINE, SOLID = made(1, 2, 4), made(1, 2, 3, 3, 3)
LOW, LOW2, LOW_V = X.to(BF16), Y.to(BF16), V.to(BF16)
ROWS = torch.tensor([0, 2], device="hpu")
CLASSES = torch.tensor([0, 1, 2, 3], device="hpu")
SIGNS = torch.tensor([1, -1, 1, -1], device="hpu")

IN_LOWER_PRECISION = {
    "addbmm": lambda: torch.addbmm(X, X[None], Y[None]),
    "addmm": lambda: torch.addmm(X, X, Y),
    "baddbmm": lambda: torch.baddbmm(X[None], X[None], Y[None]),
    "batch_norm": lambda: F.batch_norm(X, V, V, V, V, True),
    "bmm": lambda: torch.bmm(X[None], Y[None]),
    "conv1d": lambda: F.conv1d(LINE, made(2, 2, 2)),
    "conv2d": lambda: F.conv2d(IMAGE, FILTER),
    "conv3d": lambda: F.conv3d(SOLID, made(2, 2, 2, 2, 2)),
    "conv_transpose1d": lambda: F.conv_transpose1d(LINE, made(2, 2, 2)),
    "conv_transpose2d": lambda: F.conv_transpose2d(IMAGE, FILTER),
    "conv_transpose3d": lambda: F.conv_transpose3d(SOLID, made(2, 2, 2, 2, 2)),
    "dot": lambda: torch.dot(V, V),
    "dropout": lambda: F.dropout(X, 0.5, training=False),
    "feature_dropout": lambda: F.dropout2d(IMAGE, 0.5, training=False),
    "group_norm": lambda: F.group_norm(X, 2, V, V),
    "instance_norm": lambda: F.instance_norm(LINE, weight=made(2), bias=made(2)),
    "layer_norm": lambda: F.layer_norm(X, (4,), V, V),
    "leaky_relu": lambda: F.leaky_relu(X),
    "linear": lambda: F.linear(X, Y, V),
    "log_softmax": lambda: F.log_softmax(X, 1),
    "matmul": lambda: X @ Y,
    "mean": lambda: torch.mean(X, 1) + torch.mean(X),
    "mm": lambda: torch.mm(X, Y),
    "mul": lambda: X * Y,
    "mv": lambda: torch.mv(X, V),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(X, Y, X),
    "softmax": lambda: torch.softmax(X, 1),
}
IN_FP32 = {
    "acos": lambda: torch.acos(LOW),
    "addcdiv": lambda: torch.addcdiv(LOW, LOW, LOW2),
    "asin": lambda: torch.asin(LOW),
    "atan2": lambda: torch.atan2(LOW, LOW2),
    "bilinear": lambda: F.bilinear(LOW, LOW2, made(2, 4, 4, dtype=BF16)),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(LOW, LOW2),
    "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(LOW, LOW2),
    "cdist": lambda: torch.cdist(LOW, LOW2),
    "cosh": lambda: torch.cosh(LOW),
    "cosine_embedding_loss": lambda: F.cosine_embedding_loss(LOW, LOW2, SIGNS),
    "cosine_similarity": lambda: F.cosine_similarity(LOW, LOW2),
    "cross_entropy_loss": lambda: F.cross_entropy(LOW, CLASSES),
    "dist": lambda: torch.dist(LOW, LOW2),
    "div": lambda: LOW / LOW2 + LOW / 2,
    "divide": lambda: torch.divide(LOW, LOW2),
    "embedding": lambda: F.embedding(ROWS, LOW),
    "embedding_bag": lambda: F.embedding_bag(ROWS, LOW, torch.tensor([0], device="hpu")),
    "erfinv": lambda: torch.erfinv(LOW),
    "exp": lambda: torch.exp(LOW),
    "expm1": lambda: torch.expm1(LOW),
    "hinge_embedding_loss": lambda: F.hinge_embedding_loss(LOW_V, SIGNS),
    "huber_loss": lambda: F.huber_loss(LOW, LOW2),
    "kl_div": lambda: F.kl_div(LOW, LOW2, reduction="batchmean"),
    "l1_loss": lambda: F.l1_loss(LOW, LOW2),
    "log": lambda: torch.log(LOW),
    "log10": lambda: torch.log10(LOW),
    "log1p": lambda: torch.log1p(LOW),
    "log2": lambda: torch.log2(LOW),
    "logsumexp": lambda: torch.logsumexp(LOW, 1),
    "margin_ranking_loss": lambda: F.margin_ranking_loss(LOW_V, LOW_V, SIGNS),
    "mse_loss": lambda: F.mse_loss(LOW, LOW2),
    "multi_margin_loss": lambda: F.multi_margin_loss(LOW, CLASSES),
    "multilabel_margin_loss": lambda: F.multilabel_margin_loss(LOW_V, CLASSES),
    "nll_loss": lambda: F.nll_loss(LOW, CLASSES),
    "pdist": lambda: F.pdist(LOW),
    "poisson_nll_loss": lambda: F.poisson_nll_loss(LOW, LOW2),
    "pow": lambda: LOW**LOW2 + LOW**2 + 2**LOW,
    "reciprocal": lambda: torch.reciprocal(LOW),
    "renorm": lambda: torch.renorm(LOW, 2, 0, 1.0),
    "rsqrt": lambda: torch.rsqrt(LOW),
    "sinh": lambda: torch.sinh(LOW),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(LOW, LOW2),
    "soft_margin_loss": lambda: F.soft_margin_loss(LOW_V, SIGNS),
    "softplus": lambda: F.softplus(LOW),
    "tan": lambda: torch.tan(LOW),
    "topk": lambda: torch.topk(LOW, 2)[0],
    "triplet_margin_loss": lambda: F.triplet_margin_loss(LOW, LOW2, LOW),
    "true_divide": lambda: torch.true_divide(LOW, LOW2),
}
# A tensor without dimensions does not widen another one, except under autocast.
NUMBER = made()
IN_THE_WIDEST_TYPE = {
    "add": lambda: LOW + NUMBER,
    "addcmul": lambda: torch.addcmul(LOW, LOW, NUMBER),
    "cat": lambda: torch.cat([LOW, Y]),
    "stack": lambda: torch.stack([LOW, Y]),
    "sub": lambda: LOW - NUMBER,
}
OF_MIXED_TYPES = {
    "_convolution": lambda: torch._convolution(
        *(IMAGE.to(BF16), FILTER, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        *(False, False, True, True),
    ),
    "addmv": lambda: torch.addmv(V, LOW, LOW_V),
    "chain_matmul": lambda: torch.chain_matmul(LOW, Y),
    "conv_tbc": lambda: torch.conv_tbc(made(4, 2, 3, dtype=BF16), made(2, 3, 5), made(5)),
    "convolution": lambda: torch.convolution(
        IMAGE.to(BF16), FILTER, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1
    ),
    "cross": lambda: torch.cross(LOW[:, :3], Y[:, :3], dim=1),
    "grid_sampler": lambda: F.grid_sample(IMAGE.to(BF16), made(1, 4, 4, 2), align_corners=False),
    "index_put": lambda: torch.index_put(LOW, (ROWS,), Y[:2]),
    "linalg_multi_dot": lambda: torch.linalg.multi_dot([LOW, Y, LOW]),
    "linalg_vecdot": lambda: torch.linalg.vecdot(LOW, Y),
    "prelu": lambda: F.prelu(LOW, made(1)),
    "scatter_add": lambda: torch.scatter_add(LOW, 0, CLASSES.expand(4, 4), Y),
    "tensordot": lambda: torch.tensordot(LOW, Y, 1),
    "vdot": lambda: torch.vdot(LOW_V, V),
}
# These are made of products, which are in lower precision.
OF_PRODUCTS = {"chain_matmul", "linalg_multi_dot", "linalg_vecdot", "tensordot"}
ALONE = {
    "istft": lambda: torch.istft(
        torch.ones(3, 4, dtype=torch.complex64, device="hpu"), 4, window=torch.ones_like(V)
    ),
    "nuclear_norm": lambda: torch.ops.aten.nuclear_norm(LOW),
    "stft": lambda: torch.stft(LOW.flatten(), 4, window=V, return_complex=True).real,
}
CASES = [
    *((name, call, BF16) for name, call in IN_LOWER_PRECISION.items()),
    *((name, call, F32) for name, call in (IN_FP32 | IN_THE_WIDEST_TYPE | ALONE).items()),
    *((n, call, BF16 if n in OF_PRODUCTS else F32) for n, call in OF_MIXED_TYPES.items()),
]


def test_every_operator_of_the_lists_is_here():
    assert sorted(IN_LOWER_PRECISION) == sorted(autocast_lists.LOWER_PRECISION)
    assert sorted(IN_FP32) == sorted(autocast_lists.FP32)
    in_lists_before = {*IN_LOWER_PRECISION, *IN_FP32}
    assert sorted({*autocast_lists.PROMOTE} - in_lists_before) == sorted(IN_THE_WIDEST_TYPE)
    assert sorted(OF_MIXED_TYPES) == sorted(autocast_lists.ALIGNED)
    assert sorted(ALONE) == sorted(autocast_lists.FP32_ALONE)


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@pytest.mark.parametrize(("name", "call", "dtype"), CASES, ids=[case[0] for case in CASES])
def test_result_type(name, call, dtype):
    """A graph casts as an eager call does."""
    fresh_process()
    with torch.no_grad(), torch.autocast("hpu", dtype=BF16):
        assert call().dtype == dtype
        assert torch.compile(call, backend="hpu_backend")().dtype == dtype


@pytest.mark.parametrize("name", sorted(autocast_lists.FIRST_ARGUMENT))
def test_norms_keep_the_type_of_weights(name):
    weight = V.clone().requires_grad_() if name != "instance_norm" else made(2).requires_grad_()
    call = {
        "batch_norm": lambda: F.batch_norm(X, V.clone(), V.clone(), weight, V, True),
        "group_norm": lambda: F.group_norm(X, 2, weight, V),
        "instance_norm": lambda: F.instance_norm(LINE, weight=weight),
        "layer_norm": lambda: F.layer_norm(X, (4,), weight, V),
    }[name]
    seen: list[set[torch.dtype]] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "norm" in str(func) and "backward" not in str(func):
                seen.append({a.dtype for a in args[1:] if isinstance(a, torch.Tensor)})
            return func(*args, **(kwargs or {}))

    with torch.autocast("hpu", dtype=BF16), Watch():
        result = call()
    result.sum().backward()
    assert seen and all(types == {F32} for types in seen)
    assert result.dtype == BF16 and weight.grad.dtype == F32
    torch.testing.assert_close(result.float(), call(), rtol=2e-2, atol=2e-2)


def test_what_is_not_cast():
    with torch.autocast("hpu", dtype=BF16):
        assert torch.relu(LOW).dtype == BF16 and torch.relu(X).dtype == F32
        assert torch.sum(LOW).dtype == BF16
        assert (X.double() @ X.double()).dtype == torch.float64
        assert (CLASSES / 2).dtype == F32 and (CLASSES * 2).dtype == torch.int64
        assert (X.cpu() @ X.cpu()).dtype == F32
        assert torch.softmax(LOW, 1, dtype=F32).dtype == F32
        assert X.clone().mul_(2).dtype == F32
        assert torch.mul(X, Y, out=torch.empty_like(X)).dtype == F32
        assert (X.half() + X.half()).dtype == torch.float16
        assert torch.tensordot(X, Y, 1).dtype == BF16  # as its product is, without a rule


def test_nesting():
    with torch.autocast("hpu", dtype=BF16):
        assert (X @ Y).dtype == BF16
        with torch.autocast("hpu", enabled=False):
            assert (X @ Y).dtype == F32 and torch.exp(LOW).dtype == BF16
            with torch.autocast("hpu", dtype=torch.float16):
                assert (X @ Y).dtype == torch.float16
            assert (X @ Y).dtype == F32
        assert (X @ Y).dtype == BF16 and torch.exp(LOW).dtype == F32
    assert (X @ Y).dtype == F32


def test_nesting_in_a_graph():
    def run(x, y):
        with torch.autocast("hpu", dtype=BF16):
            first = x * y
            with torch.autocast("hpu", enabled=False):
                second = x * y
            third = torch.exp(first)
        return first, second, third, x * y

    fresh_process()
    got = torch.compile(run, backend="hpu_backend", fullgraph=True)(X, Y)
    for ours, eager in zip(got, run(X, Y), strict=True):
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager, rtol=1e-2, atol=0)  # one may round less
    assert [t.dtype for t in got] == [BF16, F32, F32, F32]


def gradients_of_product(ctx, grad, dtype):
    a, b = ctx.saved_tensors
    first, second = grad @ b.t(), a.t() @ grad
    assert first.dtype == second.dtype == dtype
    return first, second


class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="hpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="hpu")
    def backward(ctx, grad):
        return gradients_of_product(ctx, grad, BF16)  # autocast is that of the forward


class ProductInF32(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="hpu", cast_inputs=F32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="hpu")
    def backward(ctx, grad):
        return gradients_of_product(ctx, grad, F32)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("function", "dtype"), [(Product, BF16), (ProductInF32, F32)])
def test_custom_functions(function, dtype, compiled):
    fresh_process()
    a, b = X.clone().requires_grad_(), LOW2.float().requires_grad_()
    run = torch.compile(function.apply, backend="hpu_backend") if compiled else function.apply
    with torch.autocast("hpu", dtype=BF16):
        result = run(a, b)
    result.sum().backward()
    assert result.dtype == dtype and a.grad.dtype == b.grad.dtype == F32


def test_gradients_have_the_type_of_the_input():
    x = X.clone().requires_grad_()
    with torch.autocast("hpu", dtype=BF16):
        loss = torch.softmax(x * x, 1).mean()
    loss.backward()
    assert loss.dtype == BF16 and x.grad.dtype == F32


_TYPES = """
import torch, habana_frameworks.torch
x = torch.ones(4, 4, device="hpu")
low = x.to(torch.bfloat16)

def run(x, low):
    return [x @ x, x * x, x * low, x.exp(), low.exp(), low / low, low.tan(), low**2, x.softmax(0)]

with torch.no_grad(), torch.autocast("hpu", dtype=torch.bfloat16):
    for f in (run, torch.compile(run, backend="hpu_backend")):
        print("".join("B" if t.dtype == torch.bfloat16 else "F" for t in f(x, low)))
"""


def types_with(**env: str) -> tuple[str, str]:
    """The types that the program above gives eagerly and compiled, and what it logged."""
    done = output_of(_TYPES, **env)
    eager, compiled = done.stdout.splitlines()
    assert eager == compiled
    return eager, done.stderr


# B: bfloat16, F: float32.
BUILT_IN = "BBBFFFFFB"


def test_built_in_lists():
    types, log = types_with()
    assert types == BUILT_IN and "autocast" not in log


def test_lists_in_files(tmp_path):
    """mul and exp are promoted, because neither file has them; exp is in both lists of names."""
    lower, fp32 = tmp_path / "lower.txt", tmp_path / "fp32.txt"
    lower.write_text("exp\nmatmul\n\npow.Tensor_Scalar\n")
    fp32.write_text("  exp\ndiv\npow\n")
    types, log = types_with(**{LOWER: str(lower), FP32: str(fp32)})
    assert types == "BFFBBFBBF"
    assert "autocast" not in log


def test_one_list_in_a_file(tmp_path):
    """tan, which the file does not have, keeps its type."""
    path = tmp_path / "fp32.txt"
    path.write_text("div\nsoftmax\n")
    types, _ = types_with(**{FP32: str(path)})
    assert types == "BBBFBFBBB"


def test_unknown_names_are_told_once(tmp_path):
    path = tmp_path / "lower.txt"
    path.write_text("matmul\nno_such_op\nadd_\nmul\n")
    types, log = types_with(**{LOWER: str(path)})
    assert types[:3] == "BBB"
    (line,) = [line for line in log.splitlines() if "autocast" in line]
    assert LOWER in line and line.endswith("has: no_such_op, add_")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_list_that_cannot_be_read_is_told_once(tmp_path, content):
    path = tmp_path / "lower.txt"
    if content is not None:
        path.write_bytes(content)
    types, log = types_with(**{LOWER: str(path)})
    assert types == BUILT_IN
    (line,) = [line for line in log.splitlines() if "autocast" in line]
    assert LOWER in line and "built-in list" in line


def test_the_lists_are_in_the_key_of_a_graph(tmp_path):
    """Autocast inside a graph is not among the modes around it."""
    code = """
import torch, habana_frameworks.torch
from habana_frameworks.torch.dynamo.keys.graph_key import ambient_factors
print(dict(ambient_factors())["autocast_lists"])
"""
    path = tmp_path / "lower.txt"
    path.write_text("matmul\n")
    built_in, again = (output_of(code).stdout for _ in range(2))
    assert built_in == again != output_of(code, **{LOWER: str(path)}).stdout
