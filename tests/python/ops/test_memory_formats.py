"""Results in channels-last and other orders of dimensions: fake tensors on hpu, with which graphs
are traced, have the sizes and strides that the CPU kernels give, and compiled graphs keep them."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import habana_frameworks.torch.dynamo.compile_backend.backends  # noqa: F401  its rules of fakes
from habana_frameworks.torch.dynamo import report

# PyTorch makes fake tensors for these by a decomposition, before it asks for a rule of an operator.
DECOMPOSED_EARLY = {
    "aten._log_softmax_backward_data.default",
    "aten.glu_backward.default",
    "aten.ldexp.Tensor",
    "aten.max_unpool2d.default",
    "aten.native_dropout_backward.default",
}


def channels_last(tensor):
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return tensor if order is None else tensor.contiguous(memory_format=order)


def reversed_dimensions(tensor):
    return tensor.mT.contiguous().mT if tensor.dim() == 2 else _ordered(tensor, reversed)


def batch_second(tensor):
    return _ordered(tensor, lambda dims: [*dims[1:2], *dims[:1], *dims[2:]])


def _ordered(tensor, order):
    dims = list(order(list(range(tensor.dim()))))
    return tensor.permute(dims).contiguous().permute([dims.index(d) for d in range(len(dims))])


LAYOUTS = (channels_last, reversed_dimensions, batch_second)


def layout(tensor):
    """The sizes, and the strides that have a meaning."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    strides = tuple(stride for stride, size in pairs if size > 1)
    return tensor.dtype, tuple(tensor.shape), strides if tensor.numel() else ()


class Compare(TorchDispatchMode):
    """Compares every call on tensors that are not row-major with its fake result on hpu."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.different = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        apart = func.namespace != "aten" or func._schema.is_mutable
        apart |= torch.Tag.nondeterministic_seeded in func.tags
        apart |= any(t.layout != torch.strided for t in leaves)
        if apart or all(t.is_contiguous() for t in leaves):
            return result
        try:
            fake = self._fake(func, args, kwargs)
        except Exception:
            return result  # an operator without a fake kernel runs eagerly
        self.calls += 1
        for real, other in zip(*map(pytree.tree_leaves, (result, fake)), strict=True):
            strided = isinstance(real, torch.Tensor) and real.layout == torch.strided
            if strided and layout(real) != layout(other):
                self.different[str(func)] = (layout(real), layout(other))
        return result

    @staticmethod
    def _fake(func, args, kwargs):
        def made(value):
            if isinstance(value, torch.device):
                return torch.device("hpu")
            if not isinstance(value, torch.Tensor):
                return value
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="hpu")

        with FakeTensorMode():
            args, kwargs = pytree.tree_map(made, (args, kwargs))
            return func(*args, **kwargs)


def compare(info, limit, lay_out):
    def laid_out(value):
        if not isinstance(value, torch.Tensor):
            return value
        return lay_out(value.detach()).requires_grad_(value.requires_grad)

    mode = Compare()
    with contextlib.suppress(RuntimeError, NotImplementedError, ValueError, TypeError):
        samples = info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd)
        for count, sample in enumerate(samples):
            if count == limit:
                break
            given = sample.transform(laid_out)
            with contextlib.suppress(RuntimeError, NotImplementedError), mode:
                result = info.op(given.input, *given.args, **given.kwargs)
                leaves = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
                outputs = [t for t in leaves if t.requires_grad and t.is_floating_point()]
                if outputs:
                    torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    return mode


def check(infos, limit):
    calls, different = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in infos:
            # jiterator ops are for CUDA
            if torch.float32 in info.dtypes and "jiterator" not in info.name:
                for lay_out in LAYOUTS:
                    mode = compare(info, limit, lay_out)
                    calls += mode.calls
                    different |= mode.different
    assert {k: v for k, v in different.items() if k not in DECOMPOSED_EARLY} == {}
    return calls, set(different)


SHORT = (
    "pad",
    "shuffle",
    "conv2d",
    "conv3d",
    "softmax",
    "pool2d",
    "interpolate",
    "isin",
    "batch_norm",
)
SHORT += ("copysign", "floor_divide", "huber", "logsigmoid", "mse", "pow", "smooth_l1", "xlogy")


def test_fakes_have_the_strides_of_the_kernels():
    calls, _ = check([info for info in op_db if any(part in info.name for part in SHORT)], 4)
    assert calls > 100


@pytest.mark.slow
def test_fakes_of_every_operator_have_the_strides_of_the_kernels():
    calls, different = check(op_db, 100)
    assert calls > 2000
    assert different == DECOMPOSED_EARLY


def images(*sizes):
    torch.manual_seed(0)
    x = torch.randn(*sizes).to("hpu")
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    return x if order is None else x.contiguous(memory_format=order)


CASES = {
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), images(2, 8, 4, 6)),
    "channel_shuffle of volumes": (lambda x: F.channel_shuffle(x, 3), images(2, 6, 3, 4, 5)),
    "ChannelShuffle": (torch.nn.ChannelShuffle(4), images(1, 8, 4, 6)),
    "roll": (lambda x: x.roll(1, 1), images(2, 8, 4, 6)),
    "roll of two": (lambda x: x.roll((1, 2), (2, 3)), images(2, 8, 4, 6)),
    "roll of volumes": (lambda x: x.roll((1, 2, 3), (2, 3, 4)), images(2, 3, 4, 5, 6)),
    "roll of all elements": (lambda x: x.roll(3), images(2, 8, 4, 6)),
    "roll of permuted": (lambda x: x.roll(1, 0), images(2, 8, 4, 6).permute(1, 0, 2, 3)),
    "roll of transposed": (lambda x: x.roll((1, 1), (0, 1)), images(4, 5).t()),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), images(2, 8, 4, 6)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), images(2, 8, 4, 6)),
    "reflection": (lambda x: F.pad(x, (1,) * 6, mode="reflect"), images(2, 3, 4, 5, 6)),
    "replication": (lambda x: F.pad(x, (1,) * 6, mode="replicate"), images(2, 3, 4, 5, 6)),
    "circular": (lambda x: F.pad(x, (1,) * 4, mode="circular"), images(2, 3, 4, 5)),
    "flip": (lambda x: x.flip(1, 3), images(2, 3, 4, 5)),
    "interpolation": (lambda x: F.interpolate(x, scale_factor=2.0), images(2, 3, 4, 5)),
    "bilinear": (
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        images(2, 3, 4, 5),
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), images(2, 3, 4, 6)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), images(2, 3, 4, 6)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), images(2, 3, 4, 6)),
    "where": (lambda x: torch.where(x > 0, x, 0.0), images(2, 3, 4, 6)),
    "cat": (lambda x: torch.cat([x, x], 1), images(2, 3, 4, 6)),
    "group_norm": (lambda x: F.group_norm(x, 2), images(2, 4, 3, 5)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), images(2, 4, 3, 5)),
    "batch_norm of permuted": (
        lambda x: F.batch_norm(x, None, None, training=True).view(-1),
        images(5, 4, 3).permute(2, 1, 0),
    ),
    "batch_norm of transposed": (
        lambda x: F.batch_norm(x, x.mean((0, 2)), x.var((0, 2))).view(-1),
        images(5, 3, 4).transpose(1, 2),
    ),
    "isin": (lambda x: torch.isin(x, x[0]).view(-1), images(4, 5).t()),
    "logsigmoid": (lambda x: F.logsigmoid(x).view(-1), images(4, 5).t()),
    "power of a number": (lambda x: torch.pow(2, x).view(-1), images(4, 5).t()),
    "floor_divide by one": (lambda x: x.floor_divide(x[0, 0]), images(4, 5).t()),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_results_have_eagers_strides(name):
    function, x = CASES[name]
    torch._dynamo.reset()
    with torch.no_grad():
        got, want = torch.compile(function, backend="hpu_backend")(x), function(x)
    assert layout(got) == layout(want)
    torch.testing.assert_close(got.cpu(), want.cpu())
    assert report().graphs[-1].origin != "eager"


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("op", ["_embedding_bag", "_embedding_bag_forward_only"])
def test_embedding_bag_has_eagers_sizes(op, mode, last):
    weight = torch.arange(40.0).reshape(10, 4).to("hpu")
    indices = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]).to("hpu")
    offsets = torch.tensor([0, 3, 8] if last else [0, 4]).to("hpu")

    def function(weight, indices, offsets):
        call = getattr(torch.ops.aten, op)
        return call(weight, indices, offsets, False, mode, False, None, last)

    torch._dynamo.reset()
    got = torch.compile(function, backend="hpu_backend")(weight, indices, offsets)
    want = function(weight, indices, offsets)
    # For the rest of the results PyTorch's shape function and its CPU kernel disagree in this case.
    count = 1 if last and op == "_embedding_bag_forward_only" else 4
    assert [layout(t) for t in got][:count] == [layout(t) for t in want][:count]
    torch.testing.assert_close(got[0].cpu(), want[0].cpu())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "op", ["native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"]
)
def test_batch_norm_has_eagers_sizes(op, training):
    x = images(2, 3, 4, 5)
    running = [torch.tensor([0.5, -1, 2]).to("hpu"), torch.tensor([0.25, 1, 4]).to("hpu")]

    def function(x, mean, var):
        return getattr(torch.ops.aten, op)(x, None, None, mean, var, training, 0.1, 1e-5)

    copies = [t.clone() for t in running]
    with torch.no_grad():
        got = torch.compile(function, backend="hpu_backend")(x, *copies)
        want = function(x, *running)
    assert [t.shape for t in got] == [t.shape for t in want]
    assert want[1].numel() == (3 if training else 0)
    for compiled, eager in zip((*got, *copies), (*want, *running), strict=True):
        torch.testing.assert_close(compiled.cpu(), eager.cpu())
