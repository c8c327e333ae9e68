"""Eager ops on hpu against the CPU, over PyTorch's own operator samples."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

import habana_frameworks.torch  # noqa: F401  registers the device

# Common operators of models, by OpInfo name; every variant of a name is run.
COMMON_OPS = """
abs add addmm argmax bmm cat chunk clamp clone cos cumsum diagonal div einsum embedding
eq erf exp expand flip floor gather ge gt index_add index_copy index_fill index_put index_select
isin isnan le linalg.norm log log_softmax logical_and logsumexp lt masked_fill masked_select matmul
max maximum mean min minimum mm mul narrow native_batch_norm native_layer_norm ne neg
nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose2d
nn.functional.cross_entropy nn.functional.embedding nn.functional.gelu nn.functional.group_norm
nn.functional.interpolate nn.functional.layer_norm nn.functional.linear nn.functional.max_pool2d
nn.functional.mse_loss nn.functional.nll_loss nn.functional.pad nn.functional.relu
nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.softplus nonzero norm
permute pow prod reciprocal repeat reshape roll rsqrt rsub scatter scatter_add select
sigmoid sign sin slice softmax sort split sqrt squeeze stack std sub sum svd t take_along_dim tanh
tile topk transpose tril triu true_divide unbind unfold unique unsqueeze var view where zero_
"""
SAMPLES_PER_OP = 4
OPS = [op for op in op_db if op.name in COMMON_OPS.split() and torch.float32 in op.dtypes]


def to_hpu(value: Any) -> Any:
    def convert(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.detach().to("hpu").requires_grad_(item.requires_grad)
        return torch.device("hpu") if isinstance(item, torch.device) else item

    return tree_map(convert, value)


def to_cpu(value: Any) -> Any:
    return tree_map(
        lambda item: item.detach().cpu() if isinstance(item, torch.Tensor) else item, value
    )


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.formatted_name)
def test_matches_cpu(op):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES_PER_OP):
        if "dropout_p" in sample.kwargs and sample.kwargs["dropout_p"] > 0:
            continue
        expected = op(sample.input, *sample.args, **sample.kwargs)
        given = to_hpu(sample.input)
        result = op(given, *to_hpu(sample.args), **to_hpu(sample.kwargs))
        torch.testing.assert_close(to_cpu(result), to_cpu(expected), equal_nan=True)
        for ours, theirs in zip(_tensors(result), _tensors(expected), strict=True):
            assert ours.device.type == "hpu"
            assert ours.stride() == theirs.stride()


def _tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def test_the_names_exist():
    assert len(OPS) > 120


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse().to("hpu"),
        lambda: (
            torch.nn.Embedding(5, 2, sparse=True, device="hpu")(torch.tensor([1, 2], device="hpu"))
            .sum()
            .backward()
        ),
    ],
    ids=["coordinates", "gradient"],
)
def test_there_are_no_sparse_tensors(make):
    with pytest.raises(NotImplementedError, match="there are no sparse tensors on hpu"):
        make()
