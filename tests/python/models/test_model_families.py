"""Every model family of transformers, small and with random weights, against CPU eager.

A family is skipped where it cannot be tested here: no configuration of a few names makes it small,
or CPU eager does not run it on inputs made from the name of its main input. The skip says why.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from helpers import fresh_process
from model_families import families, inputs_of, small_model
from torch.utils import _pytree as pytree

transformers.logging.set_verbosity_error()
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# No compiler gives eager's result for these.
EXCUSED = {
    "paligemma": "transformers masks otherwise while Dynamo traces; aot_eager on the CPU as well",
    "vit_mae": "draws a random mask at every call",
}


def tensors_of(output: Any) -> list[torch.Tensor]:
    """The tensors of a model's output, without caches."""
    return [
        leaf
        for value in output.to_tuple()
        for leaf in pytree.tree_leaves(value.to_tuple() if hasattr(value, "to_tuple") else value)
        if isinstance(leaf, torch.Tensor)
    ]


@pytest.mark.parametrize("family", families())
def test_compiled_equals_cpu_eager(family):
    if family in EXCUSED:
        pytest.skip(EXCUSED[family])
    try:
        model = small_model(family)
        inputs = inputs_of(model)
        with torch.no_grad():
            expected = tensors_of(model(**inputs))
    except Exception as error:
        pytest.skip(f"not here: {type(error).__name__}: {str(error).splitlines()[:1]}")
    fresh_process()
    compiled = torch.compile(model.to("hpu"), backend="hpu_backend")
    with torch.no_grad():
        got = tensors_of(compiled(**{name: x.to("hpu") for name, x in inputs.items()}))
    assert len(got) == len(expected) > 0
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if not theirs.is_floating_point():
            assert torch.equal(ours.cpu(), theirs)
            continue
        # Rounding is compared with the largest value, because sums of many terms are not exact
        # element by element.
        scale = theirs.nan_to_num(0, 0, 0).abs().max().item() if theirs.numel() else 0.0
        torch.testing.assert_close(
            ours.cpu(), theirs, rtol=1e-4, atol=1e-4 * scale + 1e-6, equal_nan=True
        )
