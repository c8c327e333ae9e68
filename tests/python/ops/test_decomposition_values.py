"""Every decomposition of PyTorch's that capture takes in place of an op gives what the op's CPU
kernel gives: on PyTorch's own samples, and on special values and arguments. Composites of the
compile server are held to the same values and arguments, compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import check, fresh_process
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from habana_frameworks.torch.dynamo.capture.decompositions.aten_rules import ATEN_RULES
from habana_frameworks.torch.dynamo.capture.decompositions.find_decomposition import (
    find_decomposition,
)

A: Any = torch.ops.aten
INF, NAN = float("inf"), float("nan")
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.5, -7.0, 1e-40, 3.4e38, 1e-8, -19]
INTEGERS = [0, 1, -1, 2, -2, 7, -7, 63, 64, 100, 12, 18]

# The contents are arbitrary, or the choice among equal elements is.
_ARBITRARY = {"aten.new_empty_strided.default", "aten.empty_strided.default"}
_ANY_INDEX = {"aten.kthvalue.default", "aten.median.dim"}
# The decompositions of these widen narrower floats than the kernels do, and round once.
_TOLERANCE = {torch.bfloat16: 5e-2, torch.float32: 2e-4}


def copies(arguments: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), arguments)


def assert_equal(op: Any, ours: Any, theirs: Any) -> None:
    results = zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True)
    for index, (got, want) in enumerate(results):
        if str(op) in _ARBITRARY or (str(op) in _ANY_INDEX and index == 1):
            assert got.shape == want.shape
            continue
        tolerance = _TOLERANCE.get(want.dtype, 1e-6)
        torch.testing.assert_close(
            got, want, rtol=tolerance, atol=tolerance, equal_nan=True, msg=f"{op}, result {index}"
        )


class Comparing(TorchDispatchMode):
    """Runs each op by its kernel and by its decomposition, where capture would use the
    decomposition."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        random = torch.Tag.nondeterministic_seeded in func.tags
        found = None if random or func._schema.is_mutable else find_decomposition(func)
        arguments = copies((args, kwargs)) if found is not None else None
        result = func(*args, **kwargs)
        if found is not None:
            ours = decomposed(found, *arguments)
            if ours is not None:
                self.compared.add(str(func))
                if pytree.tree_map_only(torch.Tensor, lambda t: t.shape, ours) == (
                    pytree.tree_map_only(torch.Tensor, lambda t: t.shape, result)
                ):  # otherwise capture keeps the op (recorder.py)
                    assert_equal(func, ours, result)
        return result


def decomposed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Returns None where the decomposition refuses, or needs what only a recipe can do: reads
    beyond a tensor that a mask hides afterwards."""
    try:
        with torch.no_grad():
            result = function(*args, **kwargs)
    except (NotImplementedError, IndexError, TypeError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError):
            # Refusals of views that only fake tensors would accept.
            known = "reshape" in str(error) or "invalid for input" in str(error)
            if not known:
                raise
        return None
    return None if result is NotImplemented else result


def run_samples(dtype: torch.dtype, gradients: bool, count: int) -> set[str]:
    torch.manual_seed(0)
    mode = Comparing()
    for op in op_db:
        if not op.supports_dtype(dtype, "cpu") or (gradients and not op.supports_autograd):
            continue
        if op.name.startswith("jiterator"):  # for CUDA alone
            continue
        for sample in itertools.islice(samples_of(op, dtype, gradients), count):
            with mode:
                result = op(sample.input, *sample.args, **sample.kwargs)
                losses = [
                    leaf.sum()
                    for leaf in pytree.tree_leaves(result)
                    if isinstance(leaf, torch.Tensor)
                    and leaf.requires_grad
                    and leaf.is_floating_point()
                ]
                if losses:
                    torch.stack(losses).sum().backward()
    return mode.compared


def samples_of(op: Any, dtype: torch.dtype, gradients: bool) -> Iterator[Any]:
    yield from op.sample_inputs("cpu", dtype, requires_grad=gradients)


# For ops whose samples take PyTorch's kernels seconds, or need packages that are not installed.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "gradients", "least"),
    [
        (torch.float32, True, 27),
        (torch.int64, False, 30),
        (torch.bool, False, 10),
        (torch.bfloat16, False, 30),
    ],
    ids=str,
)
def test_samples_of_pytorch(dtype: torch.dtype, gradients: bool, least: int) -> None:
    """least: the number of ops that reach a decomposition; it falls when an op gets a row, which
    test_compiler_ops.py then holds against PyTorch."""
    assert len(run_samples(dtype, gradients, 40)) >= least


def float_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.meshgrid(torch.tensor(FLOATS), torch.tensor(FLOATS), indexing="ij")
    return x.reshape(-1), y.reshape(-1)


def special_calls() -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    def call(op: Any, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return op, args, kwargs

    x, y = float_pairs()
    one = torch.tensor(FLOATS)
    for name in ("deg2rad", "rad2deg", "digamma", "i0", "lgamma", "isneginf", "isposinf"):
        yield call(getattr(A, name).default, one)
    for name in ("special_entr", "special_erfcx", "special_i0e", "special_log_ndtr"):
        yield call(getattr(A, name).default, one)
    for name in ("heaviside", "igamma", "igammac", "logaddexp2", "nextafter", "special_xlog1py"):
        yield call(getattr(A, name).default, x, y)
    for op in (A.copysign.Tensor, A.fmax.default, A.fmin.default, A.ldexp.Tensor):
        yield call(op, x, y)
    for dtype in (torch.int64, torch.int32, torch.int8):
        p, q = torch.meshgrid(torch.tensor(INTEGERS), torch.tensor(INTEGERS), indexing="ij")
        p, q = p.reshape(-1).to(dtype), q.reshape(-1).to(dtype)
        yield call(A.gcd.default, p, q)
        yield call(A.lcm.default, p, q)
        yield call(A.bitwise_left_shift.Tensor, p, q)
        yield call(A.bitwise_right_shift.Tensor, p, q)
    yield call(A.frexp.Tensor, one)
    yield call(A.aminmax.default, one)
    yield call(A.nansum.default, x, [0], True)
    random = torch.Generator().manual_seed(0)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=random)

    for order, most in itertools.product((1, 2, 3, INF), (0.0, 1.0, 1e-3)):
        yield call(A.renorm.default, normal(3, 4, 5), order, 1, most)
        yield call(A.renorm.default, torch.zeros(3, 4), order, 0, most)
        yield call(A._cdist_forward.default, normal(2, 3, 4), normal(2, 5, 4), order, None)
    edges = torch.tensor([1.0, 3.0, 3.0, 5.0])
    for right, narrow in itertools.product((False, True), repeat=2):
        yield call(A.bucketize.Tensor, one, edges, out_int32=narrow, right=right)
        yield call(A.searchsorted.Tensor, edges, one, out_int32=narrow, right=right)
        order_of = torch.tensor([3, 2, 1, 0])
        yield call(A.searchsorted.Tensor, edges.flip(0), one, sorter=order_of, right=right)
    for unique, invert in itertools.product((False, True), repeat=2):
        among = torch.tensor([1, 7, 100, -2])
        keywords = {"assume_unique": unique, "invert": invert}
        yield call(A.isin.Tensor_Tensor, torch.tensor(INTEGERS), among, **keywords)
        yield call(A.isin.Tensor_Tensor, one, one, invert=invert)
    scores, weight = normal(4, 5), torch.rand(5, generator=random)
    classes = torch.tensor([0, 4, 2, 1])
    for p, margin, reduction in itertools.product((1, 2), (1.0, 0.3, -1.0), (0, 1, 2)):
        for given in (None, weight):
            yield call(A.multi_margin_loss.default, scores, classes, p, margin, given, reduction)
    # A row of labels ends at the first -1; labels may repeat; a row may have none or all.
    labels = torch.tensor([[3, 0, -1, 1, 2], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [2, 2, -1, -1, -1]])
    for reduction in (0, 1, 2):
        yield call(A.multilabel_margin_loss_forward.default, scores, labels, reduction)
        for row in range(4):
            single = (scores[row], labels[row], reduction)
            yield call(A.multilabel_margin_loss_forward.default, *single)
    for turns in range(-5, 6):
        yield call(A.rot90.default, normal(2, 3, 4), turns, [0, 2])
    for decimals in (-2, 0, 3):
        yield call(A.round.decimals, normal(9) * 100, decimals=decimals)
    for offset in (-2, -1, 0, 3):
        yield call(A.diag_embed.default, normal(2, 3), offset)
    yield call(A.block_diag.default, [normal(2, 2), normal(0), normal(3), torch.tensor(2.0)])
    yield call(A.histc.default, normal(50) * 3, 10, -2.0, 2.0)
    yield call(A.histc.default, torch.full((5,), 2.0), 4, 0.0, 0.0)
    rows = torch.tensor([[5.0, NAN, 1.0, 2.0, NAN], [1.0, 4.0, 3.0, 2.0, 0.0]])
    for place in (1, 2, 5):
        yield call(A.kthvalue.default, rows, place)
    yield call(A.median.default, rows)
    yield call(A.median.default, rows[1])
    index = torch.tensor([0, 2, 0, 0])
    for reduce, own in itertools.product(("prod", "mean", "amax", "amin"), (True, False)):
        yield call(
            A.index_reduce.default, normal(4, 3), 0, index, normal(4, 3), reduce, include_self=own
        )
    for ceil, counts, divisor in itertools.product((False, True), (False, True), (None, 3)):
        volume = (normal(2, 3, 5, 6, 7), [2, 3, 2], [2, 2, 3], [1, 1, 1])
        yield call(A.avg_pool3d.default, *volume, ceil, counts, divisor)
    bias = torch.full((3, 4), NAN)
    yield call(A.addr.default, bias, normal(3), normal(4), beta=0, alpha=2.0)
    for train, by_result in itertools.product((True, False), repeat=2):
        slopes = (normal(6), normal(6), torch.rand(6, generator=random), 0.1, 0.3)
        yield call(A.rrelu_with_noise_backward.default, *slopes, train, by_result)


def test_special_values_and_arguments() -> None:
    taken = set()
    for op, args, kwargs in special_calls():
        found = find_decomposition(op)
        if found is None:
            continue
        ours = decomposed(found, *copies((args, kwargs)))
        if ours is None:
            continue
        theirs = op(*args, **kwargs)
        if str(op) == "aten.multi_margin_loss.default":
            assert theirs.shape == ours.shape
        taken.add(str(op))
        assert_equal(op, ours, theirs)
    assert len(taken) >= 17, sorted(taken)


def compiled(op: Any, args: Any, kwargs: Any) -> Any:
    """The call's results on the device, from a program."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        arguments, keywords = pytree.tree_unflatten(given, spec)
        return op(*arguments, **keywords)

    fresh_process()
    tensors = [leaves[place].to("hpu") for place in places]
    results = torch.compile(function, backend="hpu_backend", dynamic=False)(*tensors)
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), results)


def test_special_values_and_arguments_of_composites() -> None:
    taken = set()
    for op, args, kwargs in special_calls():
        if str(op) not in ATEN_RULES:
            continue
        taken.add(str(op))
        ours, theirs = compiled(op, args, kwargs), op(*args, **kwargs)
        if str(op) == "aten.multilabel_margin_loss_forward.default":
            # PyTorch's tracing says that a single row's loss has a dimension.
            ours = (ours[0].reshape(theirs[0].shape), ours[1])
        assert_equal(op, ours, theirs)
    assert len(taken) >= 25, sorted(taken)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_margin_loss_of_several_labels(reduction: str, dtype: torch.dtype) -> None:
    """The loss compiled, with its gradient."""
    scores = torch.tensor([[0.1, 0.2, 0.4, 0.8], [0.3, -0.2, 0.9, 0.0]], dtype=dtype)
    labels = torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 0]])

    def loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.multilabel_margin_loss(scores, labels, reduction=reduction)

    check(loss, scores, labels)
    theirs = scores.clone().requires_grad_()
    loss(theirs, labels).sum().backward()
    ours = scores.to("hpu").requires_grad_()
    torch.compile(loss, backend="hpu_backend")(ours, labels.to("hpu")).sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
