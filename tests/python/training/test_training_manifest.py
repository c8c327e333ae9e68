"""Compares what a training graph states about its inputs and outputs with what AOTAutograd finds
out.

AOTAutograd's `fw_metadata` is the authority on which outputs get a tangent, which inputs are
written, and which outputs are inputs or views of them.
"""

from __future__ import annotations

import re

import pytest
import torch
from helpers import fresh_process
from test_training_models import MODELS, placed
from torch._functorch._aot_autograd.collect_metadata_analysis import (
    run_functionalized_fw_and_collect_metadata,
)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._functorch._aot_autograd.schemas import OutputType
from torch._subclasses.fake_tensor import FakeTensor

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo.capture.graph_capture import capture_graph
from habana_frameworks.torch.dynamo.capture.inputs import example_values, graph_inputs


def of_outputs(text: str) -> set[int]:
    """The outputs with a tangent."""
    return {int(n) for n in re.findall(r"^  tangent %\d+ of output (\d+)$", text, re.M)}


def of_inputs(text: str) -> set[int]:
    """The inputs with a gradient."""
    return {int(n) for n in re.findall(r"^  gradient output \d+ of %(\d+)$", text, re.M)}


def written(text: str) -> set[int]:
    return {int(n) for n in re.findall(r"aten\.copy_\.default\(self=%(\d+),", text)}


class Comparison:
    """A Dynamo backend that captures, asks AOTAutograd, and runs eagerly."""

    def __init__(self) -> None:
        self.with_gradient = []  # by graph: how many inputs get a gradient

    def __call__(self, module, example_inputs):
        values = example_values(module)
        inputs = graph_inputs(module)
        assert not inputs.attributes
        wanted = [isinstance(v, torch.Tensor) and v.requires_grad for v in example_inputs]
        captured = capture_graph(
            module,
            inputs,
            example_inputs,
            values,
            lambda: native.torch_module().GraphBuilder("g"),
            "hpu",
            True,
            wanted,
        )
        self.compare(
            captured.builder.text(), self.metadata(module, values, inputs.placeholders), wanted
        )
        return module.forward

    def metadata(self, module, values, placeholders):
        fakes = [values[node] for node in placeholders]
        mode = next(fake.fake_mode for fake in fakes if isinstance(fake, FakeTensor))
        with mode:
            return run_functionalized_fw_and_collect_metadata(
                lambda *arguments: module(*arguments),
                flat_args_descs=[PlainAOTInput(i) for i in range(len(fakes))],
                keep_input_mutations=True,
            )(*fakes)

    def compare(self, text, metadata, wanted):
        fresh = (OutputType.non_alias, OutputType.unsafe_view_alias)
        expected = {
            k
            for k, output in enumerate(metadata.output_info)
            if output.requires_grad and output.output_type in fresh
        }
        assert of_outputs(text) == expected
        assert len(metadata.traced_tangents) == len(expected)
        assert written(text) == {
            i for i, value in enumerate(metadata.input_info) if value.mutates_data
        }
        assert of_inputs(text) <= {i for i, flag in enumerate(wanted) if flag}
        self.with_gradient.append(len(of_inputs(text)))


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.train().to("hpu")
    fresh_process()
    backend = Comparison()
    torch.compile(model, backend=backend)(**placed(inputs, "hpu"))
    # GPT-2's loss is a graph of its own.
    assert backend.with_gradient[0] == len(list(model.parameters()))


def test_outputs_of_every_kind():
    def function(w, x, buffer):
        buffer.add_(1)
        return w * x, w.t(), w, x.view(-1), (w @ x).detach(), 3, x.sum()

    fresh_process()
    w = torch.randn(4, 4, device="hpu", requires_grad=True)
    x, buffer = torch.randn(4, 4, device="hpu"), torch.zeros(2, device="hpu")
    backend = Comparison()
    torch.compile(function, backend=backend)(w, x, buffer)
    assert backend.with_gradient == [1]
