"""ATen calls are taken apart in the compile server. PyTorch's own Python decompositions are the
fallback for ops without a row: which ones PyTorch's samples need, and that the report names them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import check
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.capture.call_recording import record_call
from habana_frameworks.torch.dynamo.capture.joint import record_joint

_UNPOOLING = "a scatter, which is as short in Python"
_OF_A_LOSS = "a view that has no row of its own, inside of multi_margin_loss"
_INDUCTOR = "Inductor makes it, not a user's code"
_FUSED_NORM = "torch.export makes it of batch_norm, which has a row"
# Every op that PyTorch's Python takes apart in a capture, and why it has no row.
EXPLAINED = {
    "aten._batch_norm_with_update_functional.default": _FUSED_NORM,
    "aten._chunk_cat.default": "sharded training on other devices makes it",
    "aten._unsafe_masked_index.default": _INDUCTOR,
    "aten._unsafe_masked_index_put_accumulate.default": _INDUCTOR,
    "aten.as_strided_copy.default": "as_strided and clone, which have rows",
    "aten.atleast_1d.default": _OF_A_LOSS,
    "aten.atleast_2d.default": _OF_A_LOSS,
    "aten.batch_norm_backward.default": _FUSED_NORM,
    "aten.block_diag.default": "pads and cat of as many tensors as there are",
    "aten.isin.Tensor_Tensor": "two algorithms, by the sizes of its operands",
    "aten.max_unpool2d.default": _UNPOOLING,
    "aten.max_unpool3d.default": _UNPOOLING,
    "aten.multi_margin_loss.default": "a gather and a sum, which have rows",
    "aten.renorm.default": "a norm and a product, which have rows",
    "aten.rrelu_with_noise_backward.default": "leaky_relu_backward, which has a row",
}


def recordings(op: Any, sample: Any) -> Iterator[Callable[[], Any]]:
    """Records the sample's call on fake tensors of the device, and the call with its gradient."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    given = [leaves[place] for place in places]
    if any(tensor.layout != torch.strided or tensor.is_complex() for tensor in given):
        return
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fakes = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="hpu") for t in given
        ]

    def run(tensors: Sequence[torch.Tensor]) -> list[Any]:
        arguments = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            arguments[place] = tensor
        input, args, kwargs = pytree.tree_unflatten(arguments, spec)
        return pytree.tree_leaves(op.op(input, *args, **kwargs))

    def forward() -> Any:
        with torch.no_grad():
            return record_call(mode, fakes, "call_function", lambda *t: run(t), fakes, {})[0]

    flags = [tensor.requires_grad for tensor in given]
    yield forward
    if any(flags):
        yield lambda: record_joint(mode, fakes, flags, run).snippet


def test_few_ops_need_the_python_of_pytorch() -> None:
    found: set[str] = set()
    recorded = 0
    for op in op_db:
        if not op.supports_dtype(torch.float32, "cpu"):
            continue
        torch.manual_seed(0)
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
        for sample in itertools.islice(samples, 2):
            for record in recordings(op, sample):
                try:
                    snippet = record()
                except Exception:
                    continue  # what cannot be captured runs eagerly
                recorded += 1
                found.update(snippet.decomposed)
    assert recorded > 1000
    assert sorted(found - set(EXPLAINED)) == [], "ops without a row: add one, or explain them here"
    assert sorted(set(EXPLAINED) - found) == [], "not needed any more"


@pytest.mark.parametrize("writes", [False, True])
def test_the_report_names_them(writes: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if writes:
            x.mul_(2)
        return F.interpolate(x, scale_factor=2.0, mode="bicubic") + x.renorm(2, 0, 1.0).sum()

    check(function, torch.arange(32.0).view(1, 2, 4, 4), rtol=1e-4, atol=1e-4)
    (graph,) = report().graphs
    assert "aten.renorm.default" in graph.decomposed
    assert "aten.relu.default" not in graph.decomposed
    for op in graph.decomposed:
        assert f"taken apart by PyTorch's Python: {op}" in str(report())
