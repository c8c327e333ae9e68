"""Tensors without elements (an expert that gets no token) do not cut a recording."""

from __future__ import annotations

import torch
from lazy_case import Counts, lazy_mode, mark_step

from habana_frameworks.torch.dynamo import report


def _experts(device: str) -> list[torch.Tensor]:
    x = torch.arange(15.0, device=device).reshape(3, 5) / 7
    none = torch.empty(0, dtype=torch.int64, device=device)
    routed = x[none] * 2
    together = torch.cat([x, routed])
    return [together.sum(0), x.index_add(0, none, routed), routed.t() + 1]


def test_a_recording_with_them_has_no_eager_step() -> None:
    before = {record.name for record in report().graphs}
    counts = Counts()
    with lazy_mode():
        got = _experts("hpu")
        mark_step()
        got = [tensor.cpu() for tensor in got]
    assert counts.runs_by_call == 0
    (record,) = [record for record in report().graphs if record.name not in before]
    assert (record.eager_steps, record.recipes) == ([], 1)
    for ours, theirs in zip(got, _experts("cpu"), strict=True):
        torch.testing.assert_close(ours, theirs)
