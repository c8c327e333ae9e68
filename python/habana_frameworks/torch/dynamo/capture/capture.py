"""Dynamo graph -> captured graph (graph/captured_graph.h), without AOTAutograd.

Every node's result metadata is known (from Dynamo's example values, or from our own propagation for
a concrete shape), so each node is traced by itself. A composite function that the server takes
whole is one call (whole_ops); anything else runs once on fake tensors under a mode that records its
ATen calls. Equal nodes share the recording. A graph that writes to tensors is traced as a whole
under functionalization instead (functional.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_aggregate

from ...torch_compat.fakes import FakeTensor, FakeTensorMode
from ...torch_compat.ops import HigherOrderOperator
from ...torch_compat.transforms import vmap_increment_nesting
from ...torch_compat.trees import tree_flatten, tree_leaves, tree_unflatten
from .aliases import alias_forms
from .call_recording import record_call
from .functional import GraphRunner, record_functional
from .inputs import (
    AUTOCAST,
    GRAD_SWITCHES,
    NO_EFFECT,
    GraphInputs,
    attribute,
    fake_input,
    is_weight,
)
from .joint import record_joint
from .recorder import SnippetRecorder, storage_of
from .snippet import GraphBuilder, GraphWriter, Slot, Snippet
from .values import Signature, TensorValue, map_tensors
from .whole_ops import find_handler
from .whole_ops_mode import autocast_active
from .wire import (
    GRADIENT_OF_OUTPUT,
    CaptureError,
    NeedsFunctionalization,
    check_plain,
    meta_of,
    source_line,
)


def autocast_state() -> tuple[object, ...]:
    return tuple(
        (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("hpu", "cpu")
    )


def fake_mode_of(values: Sequence[Any]) -> FakeTensorMode:
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def declare_input(writer: GraphWriter, value: Any, name: str, weight: bool) -> Any:
    """Declares one graph input and returns a TensorValue, or the specialised number itself."""
    if isinstance(value, torch.Tensor):
        check_plain(value, f"input {name}")
        on_cpu = value.device.type == "cpu"
        builder = writer.builder
        number = builder.add_tensor_input(*meta_of(value), on_cpu, name, weight and not on_cpu)
        return TensorValue(number, value)
    if value is None or isinstance(value, (int, float, bool)):
        writer.builder.add_scalar_input(name)
        return value
    raise CaptureError(f"input {name} is a {type(value).__name__}")


def refuse_numbers(module: torch.fx.GraphModule) -> None:
    """Raises CaptureError for a graph that reads a tensor's element into Python."""
    if any(node.target == "item" for node in module.graph.nodes):
        raise CaptureError(
            "the graph turns a tensor into a Python number (a float argument that changed since "
            "the first call becomes one; pass a 0-d tensor on hpu)"
        )


class Capture:
    """One capture of one graph module.

    values: the example value of every node except outputs and attributes.
    device: where outputs and inputs that are written to must be.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        inputs: GraphInputs,
        values: dict[torch.fx.Node, Any],
        builder: GraphBuilder,
        device: str = "hpu",
    ) -> None:
        self.module = module
        self.device = device
        self.inputs = inputs
        self.values = values
        self.writer = GraphWriter(builder, device)
        self.mode = fake_mode_of(tree_leaves(list(values.values())))
        self._env: dict[torch.fx.Node, Any] = {}
        self._attributes: dict[str, TensorValue] = {}
        self._snippets: dict[Any, Snippet] = {}
        # By signature of a call whose results lie otherwise in memory than the example values.
        self._lie_otherwise: dict[Any, Any] = {}
        self._host_copies: dict[int, int] = {}  # by value that is returned on the CPU
        self._host_storages: set[int] = set()  # of these values

    def run(self) -> None:
        """Records the whole graph. Raises CaptureError or NeedsFunctionalization if that is not
        possible."""
        self._declare_inputs()
        autocast_before = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("hpu", "cpu")
        ]
        try:
            with torch.no_grad():
                for node in self.module.graph.nodes:
                    self._node(node)
        finally:
            for kind, enabled, dtype in autocast_before:
                torch.set_autocast_enabled(kind, enabled)
                torch.set_autocast_dtype(kind, dtype)

    def run_functional(self) -> None:
        """Records the whole graph under functionalization, because it may write to its inputs. It
        runs in the grad mode of its caller, because transforms of torch.func (grad, vjp) inside it
        differentiate."""
        self._declare_inputs()
        tensors, run = self._as_function()
        recorded = record_functional(self.mode, [t.fake for t in tensors], run)
        self._check_mutations(tensors, recorded.mutated)
        ids = self.writer.write(recorded.snippet, [t.id for t in tensors], "")
        self._write_outputs(recorded.snippet.output, recorded.result, ids, recorded.forms)

    def run_joint(self, requires_grad: Sequence[bool]) -> None:
        """Records the whole graph with its backward, if any of its results gets a gradient.
        requires_grad: by placeholder, then by attribute."""
        self._declare_inputs()
        tensors, run = self._as_function()
        wanted = iter(requires_grad)
        placeholders = [next(wanted) for _ in self.inputs.placeholders]
        flags = [
            flag
            for node, flag in zip(self.inputs.placeholders, placeholders, strict=True)
            if isinstance(self._env[node], TensorValue)
        ]
        flags += [path not in self.inputs.constants and next(wanted) for path in self._attributes]
        recorded = record_joint(self.mode, [t.fake for t in tensors], flags, run)
        self._check_mutations(tensors, recorded.mutated)
        builder = self.writer.builder
        tangents = [
            builder.add_tensor_input(*meta_of(fake), False, f"{GRADIENT_OF_OUTPUT}{place}")
            for place, fake in recorded.tangents
        ]
        ids = self.writer.write(recorded.snippet, [*(t.id for t in tensors), *tangents], "")
        self._write_outputs(recorded.snippet.output, recorded.results, ids, recorded.forms)
        builder.set_derivative(
            [(place, id) for (place, _), id in zip(recorded.tangents, tangents, strict=True)],
            [(tensors[i].id, place) for i, place in recorded.gradients],
        )

    def _as_function(self) -> tuple[list[TensorValue], Callable[[list[torch.Tensor]], Any]]:
        """The graph's tensors (placeholders, attributes, constants), and the graph as a function of
        tensors in their places."""
        sources = [self._env[node] for node in self.inputs.placeholders]
        tensors = [v for v in sources if isinstance(v, TensorValue)]
        paths = list(self._attributes)
        tensors += [self._attributes[path] for path in paths]

        def run(wrapped: list[torch.Tensor]) -> Any:
            values = iter(wrapped)
            arguments = [next(values) if isinstance(v, TensorValue) else v for v in sources]
            attributes = dict(zip(paths, values, strict=True))
            return GraphRunner(self.module, attributes).run(*arguments)

        return tensors, run

    def _check_mutations(self, tensors: list[TensorValue], mutated: list[int]) -> None:
        paths = list(self._attributes)
        for i in mutated:
            if tensors[i].fake.device.type != self.device:
                raise CaptureError(f"the graph writes to an input that is not on {self.device}")
            path = paths[i - len(tensors)] if i >= len(tensors) - len(paths) else ""
            if path in self.inputs.constants:
                raise CaptureError(f"the graph writes to constant {path}")

    def _write_outputs(
        self, recorded: Any, results: Any, ids: list[int | None], forms: list[str]
    ) -> None:
        outputs: list[Any] = []
        fakes = tree_leaves(results)
        for slot, fake in zip(tree_leaves(recorded), fakes, strict=True):
            if isinstance(slot, Slot):
                id = ids[slot.index]
                assert id is not None
                outputs.append(self._output(TensorValue(id, fake)))
            else:
                outputs.append(self._output(slot))
        self.writer.builder.set_outputs(outputs, forms)

    def _output(self, value: Any) -> Any:
        """A graph output in the form the builder takes."""
        if isinstance(value, TensorValue):
            if value.fake.device.type != self.device:
                return self._on_host(value)
            return self.writer.builder.Value(value.id)
        if value is None or type(value) in (int, float, bool):
            return value
        raise CaptureError(f"the graph returns a {type(value).__name__}")

    def _on_host(self, value: TensorValue) -> Any:
        """An output on the CPU. The graph computes it on the device like any other value and copies
        it at its end, unless it lies in an input on the CPU."""
        fake = value.fake
        if fake.device.type != "cpu":
            raise CaptureError(f"the graph returns a tensor on {fake.device.type}")
        if value.id not in self._host_copies:
            storage = storage_of(fake)
            if storage in map(storage_of, self._input_fakes()):
                return self.writer.builder.Value(value.id)
            if storage in self._host_storages:
                raise CaptureError("the graph returns two tensors on the CPU that share memory")
            self._host_storages.add(storage)
            with self.mode:
                copied = torch.empty_like(fake)
            self._host_copies[value.id] = self.writer.copy_to_host(value.id, copied)
        return self.writer.builder.Value(self._host_copies[value.id])

    def _declare_inputs(self) -> None:
        for node in self.inputs.placeholders:
            self._env[node] = declare_input(
                self.writer, self.values[node], node.name, is_weight(node)
            )
        for path in self.inputs.attributes:
            fake = fake_input(self.mode, attribute(self.module, path))
            self._attributes[path] = declare_input(self.writer, fake, path, True)
        for path, tensor in self.inputs.constants.items():
            fake = fake_input(self.mode, tensor)
            snippet = Snippet(constants=[(0, tensor)], slot_count=1)
            (id,) = self.writer.write(snippet, [], "")
            assert id is not None
            self._attributes[path] = TensorValue(id, fake)

    def _node(self, node: torch.fx.Node) -> None:
        if node.op == "placeholder":
            return
        if node.op == "get_attr":
            self._env[node] = self._attributes[str(node.target)]
        elif node.op == "output":
            outputs = map_aggregate(node.args[0], lambda n: self._read(n))
            leaves = tree_leaves(outputs, is_leaf=lambda v: isinstance(v, TensorValue))
            fakes = [v.fake if isinstance(v, TensorValue) else v for v in leaves]
            self._check_outputs(node, fakes)
            forms = alias_forms(self._input_fakes(), fakes, autograd=False)
            self.writer.builder.set_outputs([self._output(v) for v in leaves], forms)
        else:
            self._env[node] = self._call(node)

    def _check_outputs(self, node: torch.fx.Node, fakes: Sequence[Any]) -> None:
        """Raises CaptureError for an output that would lie otherwise than the caller expects."""
        expected = tree_leaves(map_aggregate(node.args[0], self._example))
        for ours, theirs in zip(fakes, expected, strict=True):
            if isinstance(ours, torch.Tensor) and meta_of(ours) != meta_of(theirs):
                raise CaptureError("an output lies otherwise in memory when traced")

    def _example(self, value: Any) -> Any:
        """The example value of a node; anything else is returned as it is."""
        if not isinstance(value, torch.fx.Node):
            return value
        if value.op == "get_attr":
            return self._attributes[str(value.target)].fake
        return self.values[value]

    def _input_fakes(self) -> list[torch.Tensor]:
        values = [self._env[node] for node in self.inputs.placeholders]
        values += [self._attributes[path] for path in self.inputs.attributes]
        return [value.fake for value in values if isinstance(value, TensorValue)]

    def _read(self, value: Any) -> Any:
        return self._env[value] if isinstance(value, torch.fx.Node) else value

    def _call(self, node: torch.fx.Node) -> Any:
        if node.target in NO_EFFECT or node.target in GRAD_SWITCHES:
            return None
        args = map_aggregate(node.args, self._read)
        kwargs = map_aggregate(node.kwargs, self._read)
        if node.target in AUTOCAST:
            return node.target(*args, **kwargs)
        if node.target is vmap_increment_nesting:
            # Calls up to the end of the transform run with other shapes than they are written
            # with, so they are recorded while it is active.
            raise NeedsFunctionalization("a function transform (torch.func)")
        if node.target == "copy_" or isinstance(node.target, HigherOrderOperator):
            self._refuse(node)
        if self._lie_otherwise and "as_strided" in str(node.target):
            raise CaptureError(f"{node.target} after a call whose result lies otherwise in memory")
        signature = Signature()
        key = (
            node.op,
            node.target,
            signature.add(args),
            signature.add(kwargs),
            autocast_state(),
        )
        try:
            snippet = self._snippets.get(key)
        except TypeError as error:
            raise CaptureError(f"{node.target} has an unusual argument: {error}") from error
        if snippet is None:
            snippet, result = self._record(node, args, kwargs, signature)
            self._snippets[key] = snippet
            if self._lies_otherwise(node, result):
                self._lie_otherwise[key] = result
        ids = self.writer.write(
            snippet, [t.id for t in signature.tensors], source_line(node.stack_trace)
        )
        example = self._lie_otherwise.get(key, self.values[node])
        return self._result(node, snippet.output, ids, example)

    def _refuse(self, node: torch.fx.Node) -> None:
        if node.target == "copy_":
            raise NeedsFunctionalization("copy_")
        raise CaptureError(f"the graph has higher-order operation {node.target}")

    def _result(self, node: torch.fx.Node, output: Any, ids: list[int | None], result: Any) -> Any:
        """The node's value: recorded structure, value ids, metadata of `result`."""
        example, spec = tree_flatten(result)
        recorded = tree_leaves(output)
        if len(recorded) != len(example):
            raise CaptureError(f"{node.target} returned another structure when traced")
        leaves: list[Any] = []
        for slot, value in zip(recorded, example, strict=True):
            if isinstance(slot, Slot):
                id = ids[slot.index]
                assert id is not None
                leaves.append(TensorValue(id, value))
            else:
                leaves.append(slot)
        return tree_unflatten(leaves, spec)

    def _record(
        self, node: torch.fx.Node, args: Any, kwargs: Any, signature: Signature
    ) -> tuple[Snippet, Any]:
        """The node's calls, and its result on fake tensors."""
        fakes = [t.fake for t in signature.tensors]
        example = self.values[node]
        fake_args = map_tensors(args)
        fake_kwargs = map_tensors(kwargs)
        handler = None if autocast_active() else find_handler(node.op, node.target)
        if handler is not None:
            call = handler(*fake_args, **fake_kwargs)
            if call is not None:
                recorder = SnippetRecorder(fakes)
                recorder.record(call[0], call[1], call[2], example)
                return recorder.finish(example), example
        return record_call(self.mode, fakes, node.op, node.target, fake_args, fake_kwargs)

    def _lies_otherwise(self, node: torch.fx.Node, result: Any) -> bool:
        """Whether the result has other strides or another offset than the example value. Operators
        of functionalization (aten.copy) leave both to who implements them. Raises CaptureError
        where more differs."""
        expected = tree_leaves(self.values[node])
        otherwise = False
        for ours, theirs in zip(tree_leaves(result), expected, strict=False):
            if isinstance(ours, torch.Tensor) != isinstance(theirs, torch.Tensor):
                raise CaptureError(f"{node.target} returned another structure when traced")
            if isinstance(ours, torch.Tensor):
                check_plain(ours, f"the result of {node.target}")
                if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
                    raise CaptureError(f"{node.target} gave another shape when traced")
                otherwise |= meta_of(ours) != meta_of(theirs)
        return otherwise
