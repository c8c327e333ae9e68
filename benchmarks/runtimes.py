"""Contenders that run an exported model, without torch.compile: ONNX Runtime, OpenVINO's own
importer.

Each takes a case, exports and prepares it at its first call, and then answers calls with tensors
over the runtime's own outputs, with as many threads as PyTorch has.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cases import Case

Call = Callable[[], Any]


def _first_then(prepare: Callable[[], Call]) -> Call:
    """Prepares at the first call, so that the time of the first output includes it."""
    prepared = functools.cache(prepare)
    return lambda: prepared()()


def onnxruntime(case: Case) -> Call:
    """The model through torch.onnx.export(dynamo=True), with all graph optimisations."""

    def prepare() -> Call:
        import onnxruntime as runtime

        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.onnx")
            with torch.no_grad():
                program = torch.onnx.export(
                    case.model, kwargs=case.inputs, dynamo=True, verbose=False
                )
            assert program is not None
            program.save(path, external_data=True)
            session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = {name: value.numpy() for name, value in case.inputs.items()}
        # Arguments that do not change the result are not inputs of the exported model.
        wanted = {i.name: feeds[i.name] for i in session.get_inputs()}
        return lambda: [torch.from_numpy(a) for a in session.run(None, wanted)]

    return _first_then(prepare)


def _as_openvino(value: torch.Tensor) -> Any:
    """A view of the tensor's memory; numpy, through which OpenVINO takes it, has no bf16."""
    import openvino

    if value.dtype != torch.bfloat16:
        return openvino.Tensor(value.numpy(), shared_memory=True)
    bits = value.view(torch.int16).numpy()
    return openvino.Tensor(bits, list(value.shape), openvino.Type.bf16)


def _from_openvino(tensor: Any) -> torch.Tensor:
    """A tensor over the result's memory. OpenVINO gives bf16 as a numpy array of another 16-bit
    type."""
    import openvino

    if tensor.element_type != openvino.Type.bf16:
        return torch.from_numpy(tensor.data)
    return torch.from_numpy(tensor.data.view("int16")).view(torch.bfloat16)


def openvino_importer(case: Case) -> Call:
    """The model through openvino.convert_model (torch.export), in the precision of the model."""

    def prepare() -> Call:
        import openvino

        exported = torch.export.export(case.model, (), case.inputs)
        model = openvino.convert_model(exported)
        config = {
            "INFERENCE_PRECISION_HINT": {torch.float32: "f32", torch.bfloat16: "bf16"}[case.dtype],
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "PERFORMANCE_HINT": "LATENCY",
        }
        compiled = openvino.compile_model(model, "CPU", config)
        feeds = [_as_openvino(case.inputs[port.get_any_name()]) for port in compiled.inputs]
        request = compiled.create_infer_request()
        outputs = len(compiled.outputs)

        def call() -> list[torch.Tensor]:
            request.infer(feeds, share_inputs=True, share_outputs=True)
            return [_from_openvino(request.get_output_tensor(i)) for i in range(outputs)]

        return call

    return _first_then(prepare)
