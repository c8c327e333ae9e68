"""The PT2E flow: export, prepare, calibrate, convert.

    exported = export(model, (x,))
    prepared = prepare_pt2e(exported, quantizer)
    prepared(x)                                         # calibrates: observers see the tensors
    converted = convert_pt2e(prepared)

A converted graph calculates with the numbers that are left of its tensors in fp8. Weights in it are
fp8; what a product reads is made of them.
"""

from __future__ import annotations

import copy
import io
import os
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from habana_frameworks.torch.internal.notices import without_effect

from .observer import SimpleAbsMaxObserver
from .quantizer import QuantizationSpec, annotation, habana_quantizer

File = str | os.PathLike[str] | io.BytesIO
_OBSERVER = "_observer_"


def export(
    f: torch.nn.Module,
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> GraphModule:
    """The graph of a model. Raises ValueError without example inputs: a model with graph breaks,
    which the reference takes then, cannot be quantized here."""
    if args is None:
        raise ValueError(
            "export: pass example inputs as args=(x, ...); models that are only traced when they "
            "run are not supported"
        )
    program = torch.export.export(f, args, kwargs, dynamic_shapes=dynamic_shapes)
    module = program.module()
    assert isinstance(module, GraphModule)
    module.meta["pt2e_inputs"] = (args, kwargs, dynamic_shapes)
    return module


def prepare_pt2e(model: GraphModule, quantizer: habana_quantizer) -> GraphModule:
    """A copy of the graph with an observer for each tensor that the quantizer names. Run it with
    representative inputs."""
    prepared = _copy(model)
    quantizer.annotate(prepared)
    observers: dict[tuple[Node, QuantizationSpec], Node] = {}
    for node in list(prepared.graph.nodes):
        found = annotation(node)
        if found is None:
            continue
        for tensor, spec in found.input_qspec_map.items():
            key = (tensor, spec)
            if key not in observers:
                observers[key] = _observe(prepared, tensor, spec, len(observers))
            node.replace_input_with(tensor, observers[key])
    return _finished(prepared)


def convert_pt2e(
    model: GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> GraphModule:
    """A copy of a prepared graph that calculates in fp8. fold_quantize: weights are kept in fp8;
    otherwise they are rounded in each run. Raises ValueError for a graph without observers."""
    if use_reference_representation:
        without_effect("use_reference_representation", "graphs have one representation")
    converted = _copy(model)
    found = [n for n in converted.graph.nodes if str(n.target).startswith(_OBSERVER)]
    if not found:
        raise ValueError("convert_pt2e: the graph has no observers; call prepare_pt2e first")
    for node in found:
        observer = converted.get_submodule(str(node.target))
        assert isinstance(observer, SimpleAbsMaxObserver)
        (source,) = node.args
        if source.op == "get_attr" and fold_quantize:
            replacement = _fold(converted, node, source, observer)
        else:
            with converted.graph.inserting_before(node):
                narrow = _quantized(converted.graph, source, observer)
                replacement = _widened(converted.graph, narrow, source, observer)
        node.replace_all_uses_with(replacement)
        converted.graph.erase_node(node)
        converted.delete_submodule(str(node.target))
    return _finished(converted)


def save_pt2e(
    model: GraphModule | ExportedProgram,
    f: File,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
) -> None:
    """Saves a graph of this flow, or what torch.export.export made of a model."""
    if isinstance(model, GraphModule):
        args, kwargs, shapes = model.meta["pt2e_inputs"]
        model = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
    torch.export.save(model, f, extra_files=extra_files, opset_version=opset_version)


def load_pt2e(
    f: File,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """A program that save_pt2e has saved; its module() is the graph."""
    return torch.export.load(
        f, extra_files=extra_files, expected_opset_version=expected_opset_version
    )


def _copy(model: GraphModule) -> GraphModule:
    copied = copy.deepcopy(model)
    copied.meta.update(model.meta)
    return copied


def _finished(model: GraphModule) -> GraphModule:
    model.graph.eliminate_dead_code()
    model.graph.lint()
    model.recompile()
    return model


def _device_of(model: GraphModule) -> torch.device:
    tensors = (*model.parameters(), *model.buffers())
    return tensors[0].device if tensors else torch.device("cpu")


def _observe(model: GraphModule, tensor: Node, spec: QuantizationSpec, number: int) -> Node:
    name = f"{_OBSERVER}{number}"
    observer = spec.observer()
    value = tensor.meta.get("val")
    device = value.device if isinstance(value, torch.Tensor) else _device_of(model)
    model.add_submodule(name, observer.to(device))
    if tensor.op == "get_attr":  # a weight is known without a calibration
        observer(_attribute(model, str(tensor.target)))
    with model.graph.inserting_after(tensor):
        return model.graph.call_module(name, (tensor,))


def _attribute(model: GraphModule, path: str) -> torch.Tensor:
    owner, _, name = path.rpartition(".")
    tensor: torch.Tensor = getattr(model.get_submodule(owner), name)
    return tensor


def _quantized(graph: torch.fx.Graph, source: Node, observer: SimpleAbsMaxObserver) -> Node:
    aten = torch.ops.aten
    scaled = graph.call_function(aten.mul.Tensor, (source, 1 / observer.scale()))
    limits = (observer.quant_min, observer.quant_max)
    clamped = graph.call_function(aten.clamp.default, (scaled, *limits))
    return graph.call_function(aten.to.dtype, (clamped, observer.dtype))


def _widened(
    graph: torch.fx.Graph, narrow: Node, like: Node, observer: SimpleAbsMaxObserver
) -> Node:
    value = like.meta.get("val")
    dtype = value.dtype if isinstance(value, torch.Tensor) else torch.float32
    wide = graph.call_function(torch.ops.aten.to.dtype, (narrow, dtype))
    return graph.call_function(torch.ops.aten.mul.Tensor, (wide, observer.scale()))


def _fold(model: GraphModule, node: Node, source: Node, observer: SimpleAbsMaxObserver) -> Node:
    """Keeps a weight in fp8 alone."""
    weight = _attribute(model, str(source.target)).detach()
    limits = (observer.quant_min, observer.quant_max)
    name = f"{str(source.target).replace('.', '_')}_fp8"
    narrow = (weight * (1 / observer.scale())).clamp(*limits).to(observer.dtype)
    model.register_buffer(name, narrow)
    with model.graph.inserting_before(node):
        kept = model.graph.get_attr(name)
        source.meta.setdefault("val", weight)
        widened = _widened(model.graph, kept, source, observer)
    return widened
