"""An operator writes only what its schema declares, or it is in the one list of those that do not
declare their writes (backend/torch/eager/undeclared_writes.cc). Every write to weights drops the
values that are cached for them."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo.capture.recorded_ops import writes_undeclared

LISTED = native.torch_module().undeclared_writes()


def content(tensor):
    """The elements as bytes, so that NaN is compared too; None for values without strided
    elements."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().clone()
    return plain.reshape(-1).view(torch.uint8) if plain.numel() else plain.reshape(-1)


class Watch(TorchDispatchMode):
    """Compares all arguments of every operator before and after it."""

    def __init__(self):
        super().__init__()
        self.undeclared = {}  # operator -> arguments that it wrote to without declaring it
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        declared, others = [], []
        for position, argument in enumerate(func._schema.arguments):
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            leaves = [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
            if argument.alias_info is not None and argument.alias_info.is_write:
                declared += leaves
            else:
                others += [(argument.name, t, content(t), t._version) for t in leaves]
        written = {t.untyped_storage()._cdata for t in declared if t.layout == torch.strided}
        result = func(*args, **kwargs)
        self.calls += 1
        for name, tensor, before, version in others:
            if before is None or tensor.untyped_storage()._cdata in written:
                continue
            if tensor._version != version or not torch.equal(before, content(tensor)):
                self.undeclared.setdefault(func._schema.name, set()).add(name)
                assert writes_undeclared(func, args, kwargs), func
        return result


def sources(value):
    return [
        t
        for t in pytree.tree_leaves(value)
        if isinstance(t, torch.Tensor) and t.is_floating_point()
    ]


def backward(result):
    outputs = [t for t in sources(result) if t.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


# This test does not care which samples of an operator cannot be made or run.
REFUSALS = (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError, AssertionError)
NORMS = ("norm", "rnn", "lstm", "gru", "dropout", "rrelu", "embedding", "quant", "pool", "fold")


def run_op(info, limit):
    found, calls = {}, 0
    if torch.float32 not in info.dtypes:
        return found, calls
    with contextlib.suppress(*REFUSALS):
        samples = info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd)
        for count, sample in enumerate(samples):
            if count == limit:
                break
            watch = Watch()
            with contextlib.suppress(RuntimeError, NotImplementedError), watch:
                backward(info.op(sample.input, *sample.args, **sample.kwargs))
            found |= watch.undeclared
            calls += watch.calls
    return found, calls


def names(found):
    return {name: sorted(arguments) for name, arguments in found.items()}


def check_ops(infos, limit):
    found, calls = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in infos:
            more, count = run_op(info, limit)
            found |= more
            calls += count
    assert names(found) == {"aten::native_batch_norm": ["running_mean", "running_var"]}
    return calls


def test_operators_with_state_write_what_they_say():
    chosen = [info for info in op_db if any(part in info.name for part in NORMS)]
    assert check_ops(chosen, 4) > 300


@pytest.mark.slow
def test_every_operator_writes_what_it_says():
    assert check_ops(op_db, 1000) > 20_000


def check_modules(infos, limit):
    found, calls = {}, 0
    for info in infos:
        if torch.float32 not in info.dtypes or "cuda" in info.name.lower():
            continue
        with contextlib.suppress(*REFUSALS):
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=True, training=True
            )
            for sample in inputs[:limit]:
                arguments = sample.constructor_input
                module = info.module_cls(*arguments.args, **arguments.kwargs).train()
                given = sample.forward_input
                if given is None:
                    continue
                watch = Watch()
                with contextlib.suppress(RuntimeError, NotImplementedError), watch:
                    backward(module(*given.args, **given.kwargs))
                found |= watch.undeclared
                calls += watch.calls
    assert names(found) == {"aten::native_batch_norm": ["running_mean", "running_var"]}
    return calls


def test_modules_in_training_write_what_they_say():
    assert check_modules(module_db, 1) > 500


@pytest.mark.slow
def test_all_forms_of_modules_in_training_write_what_they_say():
    assert check_modules(module_db, 1000) > 5000


OPTIMIZERS = [
    (kind, options)
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
    for options in ({"fused": True}, {"foreach": True}, {"foreach": False})
]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
def test_optimizers_write_what_they_say(kind, options):
    weights = [nn.Parameter(torch.randn(3, 4)) for _ in range(2)]
    optimizer = kind(weights, lr=0.1, **options)
    watch = Watch()
    with watch:
        for _ in range(2):
            sum(w.square().sum() for w in weights).backward()
            optimizer.step()
    assert watch.undeclared == {} and watch.calls > 10


def test_observers_write_what_they_say():
    watch = Watch()
    x, ones = torch.randn(4, 8), torch.ones(1, dtype=torch.int64)
    state = [torch.zeros(1), torch.zeros(1), torch.ones(1), torch.zeros(1, dtype=torch.int32)]
    with watch:
        torch.fused_moving_avg_obs_fake_quant(x, ones, ones, *state, 0.01, 0, 255, 0)
    assert watch.undeclared == {} and watch.calls >= 1


def test_the_list_has_every_operator_with_running_statistics():
    """They are found by their arguments' names, because those of other devices cannot be run
    here."""
    told, untold = set(LISTED), set()
    for schema in torch._C._jit_get_all_schemas():
        harmless = ("backward", "functional", "no_update", "no_training")
        if not schema.name.startswith("aten::") or any(w in schema.name for w in harmless):
            continue
        for argument in schema.arguments:
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if argument.name.startswith("running_") and not writes:
                untold.add(schema.name)
    assert untold == told


def test_a_listed_operator_does_write():
    """Without its row in the list, each of them fails in Watch."""
    x, mean, var = torch.randn(4, 3) + 2, torch.zeros(3), torch.ones(3)
    for call in (
        lambda: torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5),
        lambda: torch.batch_norm_update_stats(x, mean, var, 0.1),
    ):
        watch = Watch()
        with watch:
            call()
        assert set(*watch.undeclared.values()) == {"running_mean", "running_var"}


# ---- values cached for weights -------------------------------------------------------------------


def folded(dtype, kind=nn.BatchNorm2d):
    """A convolution with a norm whose factors the device computes once."""
    torch.manual_seed(0)
    sizes = {nn.BatchNorm1d: 1, nn.BatchNorm3d: 3, nn.Linear: 0}.get(kind, 2)
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[sizes - 1](4, 8, 3)
    options = {"track_running_stats": True, "affine": True} if "Instance" in kind.__name__ else {}
    model = nn.Sequential(conv, kind(8, **options)).to("hpu", dtype).eval()
    return model, torch.randn(2, 4, *[7] * sizes).to("hpu", dtype)


def statistics(h):
    return torch.randn(6, 8, 5, 5).to("hpu", h[1].running_mean.dtype) * 3 + 2


def _train(h, x):
    h.train()
    h(x * 3 + 1)
    h.eval()


def _op(name, *more):
    def write(h, x):
        norm = h[1]
        op = getattr(torch.ops.aten, name)
        op(statistics(h), norm.weight, norm.bias, norm.running_mean, norm.running_var, *more)

    return write


def _out(h, x):
    norm, y = h[1], statistics(h)
    outs = torch.empty_like(y), torch.empty(8).to(y), torch.empty(8).to(y)
    given = (y, norm.weight, norm.bias, norm.running_mean, norm.running_var)
    names = dict(zip(("out", "save_mean", "save_invstd"), outs, strict=True))
    torch.ops.aten.native_batch_norm.out(*given, True, 0.1, 1e-5, **names)


def _update_stats(h, x):
    norm = h[1]
    torch.batch_norm_update_stats(statistics(h), norm.running_mean, norm.running_var, 0.3)


def _instance(h, x):
    norm = h[1]
    F.instance_norm(statistics(h), norm.running_mean, norm.running_var, use_input_stats=True)


def _data(h, x):
    h[1].running_var.data.mul_(3)


def _set(h, x):
    h[1].running_var.set_(h[1].running_var * 3)


def _resize(h, x):
    h[1].running_var.resize_(4).resize_(8).copy_(torch.arange(1, 9).to("hpu"))


def _storage(h, x):
    h[1].running_var.untyped_storage().copy_((h[1].running_var * 3).untyped_storage())


def _view(h, x):
    h[1].running_var.view(2, 4)[1].fill_(5)


def _foreach(h, x):
    torch._foreach_mul_([h[1].running_mean, h[1].running_var], 3.0)


def _out_variant(h, x):
    torch.add(h[1].running_var, 2.0, out=h[1].running_var)


def _load(h, x):
    h.load_state_dict({k: v * 2 for k, v in h.state_dict().items()})


def _compiled(h, x):
    compiled = torch.compile(lambda: h[1].running_var.mul_(3), backend="hpu_backend")
    compiled()


def _swap(h, x):
    kept, h[1].running_var = h[1].running_var, h[1].running_var * 3
    kept.fill_(7)


WRITES = {
    "a training step": _train,
    "native_batch_norm": _op("native_batch_norm", True, 0.1, 1e-5),
    "native_batch_norm.out": _out,
    "batch_norm": _op("batch_norm", True, 0.1, 1e-5, False),
    "_batch_norm_impl_index": _op("_batch_norm_impl_index", True, 0.1, 1e-5, False),
    "_native_batch_norm_legit": _op("_native_batch_norm_legit", True, 0.1, 1e-5),
    "_batch_norm_with_update": _op("_batch_norm_with_update", 0.1, 1e-5),
    "batch_norm_update_stats": _update_stats,
    "instance_norm": _instance,
    "data": _data,
    "set_": _set,
    "resize_": _resize,
    "storage": _storage,
    "a view": _view,
    "foreach": _foreach,
    "out=": _out_variant,
    "load_state_dict": _load,
    "a compiled write": _compiled,
    "another tensor": _swap,
}


@pytest.mark.parametrize("name", WRITES)
def test_kept_factors_go_with_every_write(name):
    model, x = folded(torch.float32)
    compiled = torch.compile(model, backend="hpu_backend")
    with torch.no_grad():
        before = [compiled(x).cpu() for _ in range(2)][-1]
        WRITES[name](model, x)
        got, want = compiled(x).cpu(), model(x).cpu()
    assert not torch.allclose(before, want, atol=1e-2)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "kind",
    [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.InstanceNorm2d],
)
def test_a_training_step_ends_the_kept_factors_of_every_norm(kind, dtype):
    """The affine weights may be frozen, and an optimizer's step may follow."""
    model, x = folded(dtype, kind)
    for parameter in model[1].parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    compiled = torch.compile(model, backend="hpu_backend")
    with torch.no_grad():
        compiled(x)
        compiled(x)
    model.train()
    model(x * 3 + 1).square().mean().backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        got, want = compiled(x).cpu().float(), model(x).cpu().float()
    bound = 5e-2 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(got, want, rtol=bound, atol=bound)


def test_what_cannot_be_captured_says_what_it_writes():
    """Functionalization has another operator for batch norm, and none for its parts."""
    mean, var = torch.zeros(3, device="hpu"), torch.ones(3, device="hpu")
    x = (torch.randn(4, 3) + 2).to("hpu")
    compiled = torch.compile(
        lambda x: torch.batch_norm_update_stats(x, mean, var, 0.5)[0], backend="hpu_backend"
    )
    mean_before, got = torch.zeros(3), compiled(x).cpu()
    torch.testing.assert_close(got, x.cpu().mean(0))
    torch.testing.assert_close(mean.cpu(), mean_before + 0.5 * x.cpu().mean(0))
