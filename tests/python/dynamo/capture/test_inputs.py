"""Sizes of inputs that are not numbers."""

from __future__ import annotations

import torch

from habana_frameworks.torch.dynamo.capture.inputs import without_symbols


def test_sizes_of_nested_tensors_have_no_value():
    nested = torch.nested.nested_tensor_from_jagged(torch.ones(8, 4), torch.tensor([0, 3, 8]))
    assert without_symbols([nested.shape[1], torch.ones(2)]) is None
