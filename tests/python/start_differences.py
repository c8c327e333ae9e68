"""One difference each between the process that stored a start and the one that may load it."""

from __future__ import annotations

import builtins
import collections
import contextlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import start_cases as cases
import torch
import torch.nn.functional as F
from start_cases import Setup, on_device, write_helpers


@dataclass(frozen=True)
class Difference:
    """moves: eager's answer changes too, so a stale start would give a wrong answer. hits: the
    difference does not affect the program, so its start is taken."""

    case: str
    when: str  # "before" the model is made, "after" it, or "around" the calls
    make: Callable[..., Any]
    moves: bool = True
    hits: bool = False
    environment: tuple[tuple[str, str], ...] = ()


DIFFERENCES: dict[str, Difference] = {}


def _differs(case: str, when: str, **more: Any) -> Callable[[Callable[..., Any]], Any]:
    def register(make: Callable[..., Any]) -> Any:
        name = f"{case}: {make.__name__.strip('_').replace('_', ' ')}"
        assert name not in DIFFERENCES, name
        DIFFERENCES[name] = Difference(case, when, make, **more)
        return make

    return register


def _set(case: str, name: str, owner: Any, attribute: str, value: Any, **more: Any) -> None:
    """Changes an attribute of something that exists before the model."""
    full = f"{case}: {name}"
    assert full not in DIFFERENCES, full
    DIFFERENCES[full] = Difference(case, "before", lambda: setattr(owner, attribute, value), **more)


def _set_of(
    case: str, name: str, find: Callable[[Any], Any], attribute: str, value: Any, **more: Any
) -> None:
    """Changes an attribute of the model, or of find(model)."""
    full = f"{case}: {name}"
    assert full not in DIFFERENCES, full

    def change(setup: Setup) -> None:
        setattr(find(setup.function), attribute, value)

    DIFFERENCES[full] = Difference(case, "after", change, **more)


def _model(model: Any) -> Any:
    return model


# ---- code ----------------------------------------------------------------------------------------


def _relu_times_gain(self: Any, x: torch.Tensor) -> torch.Tensor:
    return F.relu(x) * self.gain


def _no_finish(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x


def _other_scale(x: torch.Tensor, by: float = 1.5, *, more: float = 0.5) -> torch.Tensor:
    return x + by


def _twice_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.forward(x) * 2


def _no_bias(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x @ self.weight.t()


def _sum_and_one(values: Any, /, start: Any = 0, sum: Any = builtins.sum) -> Any:
    return sum(values, start) + (1.0 if values == [1.0, 2.0] else 0.0)


def _doubled(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: original(*args, **kwargs) * 2


_set("net", "patched method", cases.Net, "activation", _relu_times_gain)
_set("net", "patched method of a base class", cases.Base, "finish", _no_finish)
_set("net", "patched property", cases.Net, "factor", property(lambda self: 2.0))
_set("net", "patched function of torch", F, "gelu", F.silu)
_set("net", "wrapped function of torch", F, "linear", _doubled(F.linear))
_set("net", "patched forward of a class of torch", torch.nn.Linear, "forward", _no_bias)
_set("net", "patched call of a class of torch", torch.nn.Linear, "__call__", _twice_forward)
_set("net", "patched helper", cases, "scale", _other_scale)
_set("net", "default", cases.scale, "__defaults__", (2.5,))
_set("net", "keyword default", cases.scale, "__kwdefaults__", {"more": 0.75})
_set("net", "global number", cases, "FACTOR", 5.0)
_set("net", "class attribute", cases.Net, "gain", 4.0)
_set("broken", "patched method behind a break", cases.Broken, "activation", _relu_times_gain)
_set("broken", "global number behind a break", cases, "FACTOR", 5.0)
_set("broken", "patched function of torch behind a break", F, "gelu", F.silu)
_set("train", "patched method in training", cases.Net, "activation", _relu_times_gain)
_set("functions", "global number", cases, "FACTOR", 5.0)
_set("functions", "patched function", cases, "scale", _other_scale)
_set("functions", "class attribute of a class", cases.Weights, "up", 7.0)
_set("functions", "static method", cases.Weights, "mix", staticmethod(lambda x: x * 0.5))
_set("functions", "global list", cases, "LADDER", [1.0, 2.0, 5.0])
_set("functions", "longer global list", cases, "LADDER", [1.0, 2.0, 3.0, 4.0])
_set("functions", "patched builtin", builtins, "sum", _sum_and_one)
_set("closures", "another closure", cases, "CLOSURE", lambda: cases.make_closure(3.0))
_set("closures", "another tuple", cases, "CLOSURE", lambda: cases.make_closure(names=("a",)))
_set("texts", "patched function by text", F, "gelu", F.silu)
_set("texts", "patched torch function by text", torch, "tanh", torch.sigmoid)
_set("opaques", "what an opaque function calls", cases, "hidden_factor", lambda x: x * 3.0)
_set("custom_ops", "what an op names", cases, "FACTOR", 5.0, hits=True)
_set("disabled", "what an eager function names", cases, "FACTOR", 5.0, hits=True)


@_differs("functions", "before")
def _value_in_a_global_dict() -> None:
    cases.TABLE["gain"] = 2.5


@_differs("functions", "before")
def _key_that_was_missing() -> None:
    cases.TABLE["extra"] = 2.0


@_differs("functions", "before")
def _item_of_a_global_list() -> None:
    cases.LADDER[1] = 2.5


@_differs("closures", "after")
def _dict_in_a_closure(setup: Setup) -> None:
    index = setup.function.__code__.co_freevars.index("table")
    setup.function.__closure__[index].cell_contents["shift"] = 0.75


@_differs("closures", "after")
def _default_of_a_closure(setup: Setup) -> None:
    setup.function.__defaults__ = (2.0,)


@_differs("partials", "before")
def _keyword_of_a_partial() -> None:
    cases.PARTIAL.keywords["by"] = 0.75


@_differs("partials", "before")
def _function_of_a_partial() -> None:
    import functools

    cases.PARTIAL = functools.partial(_other_scale, by=2.5)


for _name, _file, _old, _new in (
    ("edited function", "inner.py", "x * 2.0", "x * 5.0"),
    ("edited caller", "outer.py", "* STEP", "+ STEP"),
    ("edited constant", "inner.py", "STEP = 4.0", "STEP = 6.0"),
    ("edited class", "inner.py", "part = 0.5", "part = 0.25"),
    ("edited method", "inner.py", "x * self.part", "x + self.part"),
    ("edited cached function", "inner.py", "n + 1.0", "n + 2.0"),
):
    DIFFERENCES[f"helpers: {_name}"] = Difference(
        "helpers",
        "before",
        lambda file=_file, old=_old, new=_new: write_helpers(file, old, new),
    )
DIFFERENCES["helpers: version of a package"] = Difference(
    "helpers", "before", lambda: write_helpers("__init__.py", "1.0", "1.1"), moves=False
)
DIFFERENCES["helpers: comment edited"] = Difference(
    "helpers", "before", lambda: write_helpers("inner.py", "STEP", "# Said.\nSTEP"), False, True
)


# ---- models --------------------------------------------------------------------------------------

_set_of("net", "attribute of a module", _model, "slope", 0.25)


@_differs("net", "after")
def _attribute_that_hides_a_buffer(setup: Setup) -> None:
    vars(setup.function)["offset"] = setup.function.offset + 1


@_differs("net", "after")
def _attribute_that_hides_a_part(setup: Setup) -> None:
    vars(setup.function)["out"] = torch.nn.Linear(8, 8).eval().to("hpu")


_set_of("net", "text of a module", _model, "mode", "none")
_set_of("net", "function of a module", _model, "chosen", F.silu)
_set_of("net", "list of a module", _model, "sizes", [1.0, 3.0])
_set_of("net", "training flag of a child", lambda m: m.drop, "training", True)
_set_of(
    "net", "forward of an instance", lambda m: m.layer, "forward", lambda x: x @ x.t() @ x[:, :1]
)
_set_of("net", "method of an instance", _model, "activation", F.relu)
_set_of("net", "another child", _model, "out", torch.nn.Identity())
_set_of("objects", "field of a dataclass", lambda m: m.config, "rate", 0.75)
_set_of("objects", "text of a dataclass", lambda m: m.config, "name", "other")
_set_of("objects", "tuple of a dataclass", lambda m: m.config, "stages", (1, 2, 3))
_set_of("objects", "int of a dataclass", lambda m: m.config, "width", 5)
_set_of("objects", "member of an enum", _model, "kind", cases.Kind.LARGE)
_set_of("objects", "named tuple", _model, "point", cases.Point(3.0, 2.0))
_set_of("objects", "object with an equality of its own", lambda m: m.shift, "by", 0.75)
_set_of("objects", "value of a descriptor", lambda m: vars(cases.Configured)["rows"], "value", 4.0)
_set_of("objects", "order of a dict", _model, "table", {"b": 2.0, "a": 1.0})
_set_of("objects", "ordered dict", _model, "order", collections.OrderedDict(b=2.0, a=1.0))
_set_of("objects", "set", _model, "marks", {"y", "z"})
_set("objects", "method of an object's class", cases.Shift, "__call__", lambda self, x: x - self.by)


class Other(cases.Net):
    activation = _relu_times_gain


_set_of("net", "instance of a subclass", _model, "__class__", Other)


@_differs("net", "after")
def _forward_hook(setup: Setup) -> None:
    setup.function.layer.register_forward_hook(lambda module, inputs, output: output + 1)


@_differs("net", "after")
def _forward_pre_hook(setup: Setup) -> None:
    setup.function.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))


@_differs("net", "after")
def _global_hook(setup: Setup) -> None:
    torch.nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: output + 1 if type(module) is torch.nn.Linear else output
    )


@_differs("train", "after", hits=True)
def _hook_of_a_parameter(setup: Setup) -> None:
    setup.function.layer.weight.register_hook(torch.compiler.disable(lambda gradient: gradient * 2))


@_differs("train", "after")
def _backward_hook(setup: Setup) -> None:
    setup.function.out.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))


@_differs("net", "after", moves=False)
def _frozen_weight(setup: Setup) -> None:
    setup.function.layer.weight.requires_grad_(False)


@_differs("train", "after")
def _frozen_weight_in_training(setup: Setup) -> None:
    setup.function.layer.weight.requires_grad_(False)


@_differs("net", "after")
def _dtype(setup: Setup) -> None:
    setup.function.bfloat16()
    setup.args = (setup.args[0].bfloat16(),)


@_differs("net", "before")
def _width() -> None:
    cases.CASES["net"] = lambda: cases.net(lambda: cases.Net(6))


@_differs("net", "after", hits=True)
def _values_of_weights(setup: Setup) -> None:
    with torch.no_grad():
        setup.function.layer.weight.mul_(2.0)


@_differs("net", "after", hits=True)
def _values_of_a_buffer(setup: Setup) -> None:
    setup.function.offset.fill_(3.0)


@_differs("net", "after")
def _shape_of_a_buffer(setup: Setup) -> None:
    setup.function.offset = torch.full((1,), 2.0, device="hpu")


@_differs("net", "after")
def _buffer_became_an_attribute(setup: Setup) -> None:
    del setup.function._buffers["offset"]
    setup.function.offset = 2.0


@_differs("net", "after", moves=False)
def _module_that_nobody_calls(setup: Setup) -> None:
    setup.function.unused = torch.nn.Linear(2, 2).to("hpu")


@_differs("net", "after")
def _parametrized_weight(setup: Setup) -> None:
    from torch.nn.utils import parametrize

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    parametrize.register_parametrization(setup.function.layer, "weight", Double())


@_differs("tied", "after")
def _tied_weights(setup: Setup) -> None:
    setup.function.second.weight = setup.function.first.weight


@_differs("tied", "after")
def _shared_module(setup: Setup) -> None:
    setup.function.second = setup.function.first


@_differs("tied", "after")
def _longer_sequence(setup: Setup) -> None:
    setup.function.blocks.append(torch.nn.Sigmoid())


@_differs("tied", "after")
def _module_of_a_sequence(setup: Setup) -> None:
    setup.function.blocks[1] = torch.nn.Sigmoid()


@_differs("tied", "after")
def _training_of_a_norm(setup: Setup) -> None:
    setup.function.norm.train()


@_differs("tied", "after")
def _epsilon_of_a_norm(setup: Setup) -> None:
    setup.function.norm.eps = 0.5


@_differs("tied", "after")
def _bias_set_to_none(setup: Setup) -> None:
    setup.function.blocks[0].bias = None


# ---- arguments -----------------------------------------------------------------------------------


def _argument(name: str, change: Callable[[Setup], None], **more: Any) -> None:
    DIFFERENCES[f"arguments: {name}"] = Difference("arguments", "after", change, **more)


def _keyword(name: str, key: str, value: Any, **more: Any) -> None:
    _argument(name, lambda setup: setup.kwargs.update({key: value}), **more)


def _inputs(name: str, change: Callable[..., Any], **more: Any) -> None:
    def apply(setup: Setup) -> None:
        setup.args = change(*setup.args)

    _argument(name, apply, **more)


_keyword("int", "count", 4)
_keyword("int that is a float", "count", 3.5)
_keyword("int that is a bool", "count", True)
_keyword("text", "mode", "product")
_keyword("list", "sizes", [1.0, 2.5])
_keyword("list for a tuple", "sizes", [1.0, 2.0], moves=False)
_keyword("longer list", "sizes", (1.0, 2.0, 3.0))
_keyword("order of a dict", "table", {"cc": 2.0, "b": 1.0})
_keyword("value of a dict", "table", {"b": 1.0, "cc": 3.0})
_keyword("key of a dict", "table", {"b": 1.0, "ddd": 2.0})
_keyword("none for a dict", "table", None)
_keyword("flag", "flag", False)
_argument("tensor for none", lambda s: s.kwargs.update(mask=on_device(4, 4, seed=2)))
_inputs("more rows", lambda x, y: (on_device(5, 4), on_device(5, 4, seed=1)))
_inputs("strides", lambda x, y: (x, y.t()))
_inputs("offset into storage", lambda x, y: (on_device(5, 4)[1:], y), hits=True)
_inputs("dtype", lambda x, y: (x, y.bfloat16()))
_inputs("device", lambda x, y: (x.cpu(), y.cpu()), moves=False)
_inputs("one tensor twice", lambda x, y: (x, x))
_inputs("views of one tensor", lambda x, y: (x, x.view(4, 4)), hits=True)
_inputs("gradient of an input", lambda x, y: (x, y.requires_grad_()), moves=False)
_inputs("parameter for a tensor", lambda x, y: (x, torch.nn.Parameter(y)), moves=False)
_inputs("broadcast row", lambda x, y: (x, y[:1]))
_inputs("keyword for a position", lambda x, y: (x, y), moves=False, hits=True)


class Tagged(torch.Tensor):
    pass


_inputs("subclass of tensor", lambda x, y: (x.as_subclass(Tagged), y), moves=False)


# ---- the process ---------------------------------------------------------------------------------


def _around(case: str, name: str, manager: Callable[[], Any], **more: Any) -> None:
    DIFFERENCES[f"{case}: {name}"] = Difference(case, "around", manager, **more)


@contextlib.contextmanager
def _switched(switch: Callable[[Any], Any], value: Any) -> Any:
    switch(value)
    yield


def _switch(switch: Callable[[Any], Any], value: Any) -> Callable[[], Any]:
    return lambda: _switched(switch, value)


_around("states", "grad mode", torch.enable_grad)
_around("states", "inference mode", torch.inference_mode)
_around("states", "default dtype", _switch(torch.set_default_dtype, torch.float64))
_around("states", "autocast", lambda: torch.autocast("hpu", torch.bfloat16))
_around("states", "autocast of the cpu", lambda: torch.autocast("cpu", torch.bfloat16), moves=False)
_around("states", "deterministic algorithms", _switch(torch.use_deterministic_algorithms, True))
_around("sums", "number of threads", _switch(torch.set_num_threads, 1), moves=False)
_around(
    "sums", "matmul precision", _switch(torch.set_float32_matmul_precision, "medium"), moves=False
)
_around("sums", "autocast", lambda: torch.autocast("hpu", torch.bfloat16))
_around(
    "sums",
    "anomaly mode",
    lambda: torch.autograd.detect_anomaly(check_nan=False),
    moves=False,
    hits=True,
)
_around("sums", "default device", lambda: torch.device("cpu"), moves=False)
_around("sums", "profiler", lambda: torch.profiler.profile(), moves=False, hits=True)
_around("backends", "attention backend", _switch(torch.backends.cuda.enable_flash_sdp, False))


class _DoubleMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.mm else result


_around("sums", "torch function mode", _DoubleMode)


@_differs("sums", "before", moves=False)
def _dynamo_config() -> None:
    import torch._dynamo.config

    torch._dynamo.config.allow_rnn = False
    torch._dynamo.config.specialize_float = not torch._dynamo.config.specialize_float


@_differs("sums", "before", moves=False)
def _functorch_config() -> None:
    import torch._functorch.config

    torch._functorch.config.functionalize_rng_ops = True


@_differs("sums", "before", moves=False)
def _build_of_torch() -> None:
    torch.version.git_version = "another"


@_differs("sums", "before", moves=False)
def _version_of_torch() -> None:
    torch.__version__ = torch.torch_version.TorchVersion("2.13.7")


@_differs("sums", "before", moves=False)
def _version_of_python() -> None:
    platform.python_version = lambda: "3.11.99"


@_differs("sums", "before", moves=False)
def _front_end() -> None:
    from habana_frameworks.torch.dynamo.start import key

    key.code_digest = lambda *folders: "another"


@_differs("sums", "before", moves=False)
def _build_of_the_compiler() -> None:
    from habana_frameworks.torch.dynamo.programs.service import service

    type(service).build_id = property(lambda self: "another")


@_differs("sums", "after", moves=False)
def _option_in_the_key(setup: Setup) -> None:
    setup.options["deterministic"] = True


@_differs("sums", "after", moves=False)
def _option_not_in_the_key(setup: Setup) -> None:
    setup.options["use_compiled_recipes"] = False


@_differs("sums", "after", moves=False)
def _fullgraph(setup: Setup) -> None:
    setup.compile_arguments["fullgraph"] = True


@_differs("sums", "after", moves=False)
def _dynamic(setup: Setup) -> None:
    setup.compile_arguments["dynamic"] = True


@_differs("sums", "after", moves=False)
def _marked_dynamic(setup: Setup) -> None:
    torch._dynamo.maybe_mark_dynamic(setup.args[0], 0)


@_differs("ranks", "before")
def _rank() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


DIFFERENCES["environments: variable that is read"] = Difference(
    "environments", "before", lambda: os.environ.update(START_TEST_MODE="other")
)
DIFFERENCES["constants: variable behind a constant"] = Difference(
    "constants", "before", lambda: os.environ.update(START_TEST_CONSTANT="other")
)
for _option, _value in (("HPU_DETERMINISTIC", "1"), ("PT_HPU_USE_INFERENCE_COMPILER", "0")):
    DIFFERENCES[f"functions: environment {_option}"] = Difference(
        "functions", "before", lambda: None, moves=False, environment=((_option, _value),)
    )
DIFFERENCES["sums: environment that says nothing"] = Difference(
    "sums", "before", lambda: None, False, True, environment=(("START_TEST_OTHER", "1"),)
)
DIFFERENCES["sums: seed of hashes"] = Difference(
    "sums", "before", lambda: None, False, True, environment=(("PYTHONHASHSEED", "7"),)
)
DIFFERENCES["sums: arguments of the process"] = Difference(
    "sums", "before", lambda: sys.argv.append("more"), False, True
)
