"""_torch.GraphBuilder: calls of PyTorch's operators become captured graphs (graph/)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from habana_frameworks.torch import native

_torch = native.torch_module()
V = _torch.GraphBuilder.Value
F32 = (torch.float32, (2, 3), (3, 1), 0, None)


def built() -> tuple[Any, int]:
    builder = _torch.GraphBuilder("g")
    return builder, builder.add_tensor_input(torch.float32, (2, 3), (3, 1), name="x")


def line(builder: Any) -> str:
    """The last call in the listing."""
    return str(builder.text().splitlines()[-2].strip())


def test_arguments_come_in_schema_order_with_defaults() -> None:
    builder, x = built()
    builder.add_call("aten.add.Tensor", (V(x),), {"other": V(x)}, [F32])
    assert line(builder) == "%1 = aten.add.Tensor(self=%0, other=%0, alpha=1) : f32[2,3]{3,1}"
    builder.add_call("aten.sum.dim_IntList", (V(x), 0), {"dtype": torch.float64}, [F32])
    assert "(self=%0, dim=[0], keepdim=False, dtype=f64)" in line(builder)


def test_numbers_take_the_declared_type() -> None:
    builder, x = built()
    builder.add_call("aten.layer_norm.default", (V(x), [3]), {"eps": 1}, [F32])
    assert "weight=None, bias=None, eps=1, cudnn_enable=True" in line(builder)
    builder.add_call("aten.avg_pool2d.default", (V(x), 2), {}, [F32])
    assert "(self=%0, kernel_size=[2, 2], stride=[], padding=[0, 0], " in line(builder)
    builder.add_call("aten.mul.Tensor", (V(x), 2), {}, [F32])
    assert "(self=%0, other=2)" in line(builder)


def test_a_float_given_as_int_is_the_same_graph() -> None:
    graphs = []
    for eps in (1, 1.0, True):
        builder, x = built()
        builder.add_call("aten.layer_norm.default", (V(x), [3]), {"eps": eps}, [F32])
        graphs.append(builder.serialize())
    assert graphs[0] == graphs[1] == graphs[2]


def test_enums_dtypes_and_devices() -> None:
    builder, x = built()
    options = {
        "dtype": torch.bfloat16,
        "layout": torch.strided,
        "device": torch.device("hpu", 0),
        "memory_format": torch.channels_last,
    }
    builder.add_call("aten._to_copy.default", (V(x),), options, [F32])
    assert (
        "dtype=bf16, layout=strided, device=hpu, pin_memory=None, non_blocking=False, "
        "memory_format=channels_last"
    ) in line(builder)


def test_writes_are_read_off_the_schema() -> None:
    builder, x = built()
    builder.add_call("aten.copy_.default", (V(x), V(x)), {}, [(*F32[:4], x)])
    assert line(builder).endswith("f32[2,3]{3,1} in %0 writes %0")


def test_random_and_source_are_kept() -> None:
    builder, x = built()
    builder.add_call("aten.bernoulli.p", (V(x), 0.5), {}, [F32], True, "model.py:3 in f")
    assert line(builder).endswith("random  # model.py:3 in f")


def test_offsets_count_from_the_memory() -> None:
    builder = _torch.GraphBuilder("g")
    x = builder.add_tensor_input(torch.float32, (4,), (1,), 7)
    y = builder.add_call(
        "aten.slice.Tensor", (V(x), 0, 1, 3), {}, [(torch.float32, (2,), (1,), 8, x)]
    )
    builder.add_call("aten.slice.Tensor", (V(y), 0, 1), {}, [(torch.float32, (1,), (1,), 9, y)])
    assert line(builder).endswith(": f32[1]{1}@2 in %0")


def test_names_and_sources_do_not_reach_the_digest_but_are_listed() -> None:
    builder = _torch.GraphBuilder("x" * 10_000)
    builder.add_tensor_input(torch.float32, (2,), (1,), name="w" * 10_000)
    builder.set_outputs([])
    assert len(builder.serialize()) < 1500


def test_wrong_arguments_are_refused_and_leave_the_graph() -> None:
    builder, x = built()
    builder.add_call("aten.relu.default", (V(x),), {}, [F32])
    before = builder.serialize()
    for bad, error, text in (
        (lambda: builder.add_tensor_input(torch.float32, (1.5,), (1,)), TypeError, "integers"),
        (lambda: builder.add_tensor_input(torch.quint8, (), ()), ValueError, "no form in a graph"),
        (lambda: builder.add_call("relu", (), {}, []), ValueError, "namespace.op.overload"),
        (lambda: builder.add_call("aten.no_op.x", (), {}, []), ValueError, "no operator"),
        (lambda: builder.add_call("aten.relu.default", (), {}, []), ValueError, "is missing"),
        (
            lambda: builder.add_call("aten.relu.default", (V(x), 1), {}, []),
            ValueError,
            "does not declare",
        ),
        (
            lambda: builder.add_call("aten.relu.default", (V(77),), {}, []),
            ValueError,
            "value 77 does not exist yet",
        ),
        (
            lambda: builder.add_call("aten.relu.default", (object(),), {}, []),
            TypeError,
            "a value of type object has no form in a graph",
        ),
        (
            lambda: builder.add_call("aten.unsqueeze.default", (V(x), 2**70), {}, []),
            ValueError,
            "64 bits",
        ),
    ):
        with pytest.raises(error, match=text):
            bad()
    assert builder.serialize() == before
    assert builder.call_count == 1


def test_every_graph_dtype_has_constants() -> None:
    for dtype in _torch.element_types():
        builder = _torch.GraphBuilder("g")
        tensor = torch.zeros(2, 2, dtype=torch.uint8).to(dtype)
        builder.set_outputs([V(builder.add_constant(tensor.t()))])
        assert "[2,2]{2,1}" in builder.text()
