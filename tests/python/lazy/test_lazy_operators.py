"""PyTorch's own operator samples (op_db) in lazy mode, against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
from lazy_case import Counts, lazy_mode
from operator_samples import answered, assert_right, name_of, operators, placed

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
    for function, tensors, wanted in answered(op):
        with lazy_mode():
            got = [result.cpu() for result in function(*placed(tensors, "hpu"))]
        assert_right(got, wanted)
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
