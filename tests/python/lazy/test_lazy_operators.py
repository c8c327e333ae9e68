"""PyTorch's own operator samples (op_db) in lazy mode, against the CPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from lazy_case import Counts, lazy_mode
from operator_samples import closed, is_plain, name_of, operators, placed, samples_of

SAMPLES = 3
# Their recordings have no program and run call by call.
CALL_BY_CALL = {
    # complex numbers inside
    "fft.hfft", "fft.hfft2", "fft.hfftn", "fft.irfft", "fft.irfft2", "fft.irfftn",
    # writes to windows of memory that no slices make
    "as_strided_scatter", "diagonal_scatter",
}  # fmt: skip
# They want sizes on the CPU, as on any device.
WANT_THE_CPU = {"tensor_split"}


def check(op: Any) -> None:
    counts = Counts()
    for sample in itertools.islice(samples_of(op), SAMPLES):
        function, tensors = closed(op, sample)
        if not all(is_plain(tensor) for tensor in tensors):
            continue
        try:
            wanted = function(*placed(tensors, "cpu"))
        except Exception:
            continue
        if not all(is_plain(result) for result in wanted):
            continue
        with lazy_mode():
            got = [result.cpu() for result in function(*placed(tensors, "hpu"))]
        for ours, theirs in zip(got, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
    assert (counts.runs_by_call > 0) == (name_of(op) in CALL_BY_CALL)


@pytest.mark.parametrize("op", operators()[3::8], ids=name_of)
def test_samples(op: Any) -> None:
    """One operator in eight."""
    test_all_samples(op)


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=name_of)
def test_all_samples(op: Any) -> None:
    if name_of(op) in WANT_THE_CPU:
        with pytest.raises(RuntimeError, match="to be on cpu"):
            check(op)
    else:
        check(op)
