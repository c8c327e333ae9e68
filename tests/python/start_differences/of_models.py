"""Attributes, hooks, parameters and parts of a model, and objects that it holds."""

from __future__ import annotations

import collections

import start_cases as cases
import start_objects as objects
import torch
import torch.nn.functional as F
from start_setup import Setup

from .difference import differs, set_attribute, set_of_model, the_model
from .of_code import relu_times_gain

set_of_model("net", "attribute of a module", the_model, "slope", 0.25)


@differs("net", "after")
def _attribute_that_hides_a_buffer(setup: Setup) -> None:
    vars(setup.function)["offset"] = setup.function.offset + 1


@differs("net", "after")
def _attribute_that_hides_a_part(setup: Setup) -> None:
    vars(setup.function)["out"] = torch.nn.Linear(8, 8).eval().to("hpu")


set_of_model("net", "text of a module", the_model, "mode", "none")
set_of_model("net", "function of a module", the_model, "chosen", F.silu)
set_of_model("net", "list of a module", the_model, "sizes", [1.0, 3.0])
set_of_model("net", "training flag of a child", lambda m: m.drop, "training", True)
set_of_model(
    "net", "forward of an instance", lambda m: m.layer, "forward", lambda x: x @ x.t() @ x[:, :1]
)
set_of_model("net", "method of an instance", the_model, "activation", F.relu)
set_of_model("net", "another child", the_model, "out", torch.nn.Identity())
set_of_model("objects", "field of a dataclass", lambda m: m.config, "rate", 0.75)
set_of_model("objects", "text of a dataclass", lambda m: m.config, "name", "other")
set_of_model("objects", "tuple of a dataclass", lambda m: m.config, "stages", (1, 2, 3))
set_of_model("objects", "int of a dataclass", lambda m: m.config, "width", 5)
set_of_model("objects", "member of an enum", the_model, "kind", objects.Kind.LARGE)
set_of_model("objects", "named tuple", the_model, "point", objects.Point(3.0, 2.0))
set_of_model("objects", "object with an equality of its own", lambda m: m.shift, "by", 0.75)
set_of_model(
    "objects", "value of a descriptor", lambda m: vars(objects.Configured)["rows"], "value", 4.0
)
set_of_model("objects", "order of a dict", the_model, "table", {"b": 2.0, "a": 1.0})
set_of_model("objects", "ordered dict", the_model, "order", collections.OrderedDict(b=2.0, a=1.0))
set_of_model("objects", "set", the_model, "marks", {"y", "z"})
set_attribute(
    "objects", "method of an object's class", objects.Shift, "__call__", lambda self, x: x - self.by
)


class Other(cases.Net):
    activation = relu_times_gain


set_of_model("net", "instance of a subclass", the_model, "__class__", Other)


@differs("net", "after")
def _forward_hook(setup: Setup) -> None:
    setup.function.layer.register_forward_hook(lambda module, inputs, output: output + 1)


@differs("net", "after")
def _forward_pre_hook(setup: Setup) -> None:
    setup.function.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))


@differs("net", "after")
def _global_hook(setup: Setup) -> None:
    torch.nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: output + 1 if type(module) is torch.nn.Linear else output
    )


@differs("train", "after", hits=True)
def _hook_of_a_parameter(setup: Setup) -> None:
    setup.function.layer.weight.register_hook(torch.compiler.disable(lambda gradient: gradient * 2))


@differs("train", "after")
def _backward_hook(setup: Setup) -> None:
    setup.function.out.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))


@differs("net", "after", moves=False)
def _frozen_weight(setup: Setup) -> None:
    setup.function.layer.weight.requires_grad_(False)


@differs("train", "after")
def _frozen_weight_in_training(setup: Setup) -> None:
    setup.function.layer.weight.requires_grad_(False)


@differs("net", "after")
def _dtype(setup: Setup) -> None:
    setup.function.bfloat16()
    setup.args = (setup.args[0].bfloat16(),)


@differs("net", "before")
def _width() -> None:
    cases.CASES["net"] = lambda: cases.net(lambda: cases.Net(6))


@differs("net", "after", hits=True)
def _values_of_weights(setup: Setup) -> None:
    with torch.no_grad():
        setup.function.layer.weight.mul_(2.0)


@differs("net", "after", hits=True)
def _values_of_a_buffer(setup: Setup) -> None:
    setup.function.offset.fill_(3.0)


@differs("net", "after")
def _shape_of_a_buffer(setup: Setup) -> None:
    setup.function.offset = torch.full((1,), 2.0, device="hpu")


@differs("net", "after")
def _buffer_became_an_attribute(setup: Setup) -> None:
    del setup.function._buffers["offset"]
    setup.function.offset = 2.0


@differs("net", "after", moves=False)
def _module_that_nobody_calls(setup: Setup) -> None:
    setup.function.unused = torch.nn.Linear(2, 2).to("hpu")


@differs("net", "after")
def _parametrized_weight(setup: Setup) -> None:
    from torch.nn.utils import parametrize

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    parametrize.register_parametrization(setup.function.layer, "weight", Double())


@differs("tied", "after")
def _tied_weights(setup: Setup) -> None:
    setup.function.second.weight = setup.function.first.weight


@differs("tied", "after")
def _shared_module(setup: Setup) -> None:
    setup.function.second = setup.function.first


@differs("tied", "after")
def _longer_sequence(setup: Setup) -> None:
    setup.function.blocks.append(torch.nn.Sigmoid())


@differs("tied", "after")
def _module_of_a_sequence(setup: Setup) -> None:
    setup.function.blocks[1] = torch.nn.Sigmoid()


@differs("tied", "after")
def _training_of_a_norm(setup: Setup) -> None:
    setup.function.norm.train()


@differs("tied", "after")
def _epsilon_of_a_norm(setup: Setup) -> None:
    setup.function.norm.eps = 0.5


@differs("tied", "after")
def _bias_set_to_none(setup: Setup) -> None:
    setup.function.blocks[0].bias = None
