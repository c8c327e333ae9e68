"""Seeds of the device's generator."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("seed", [0, 1 << 63, (1 << 64) - 1, -1, -(1 << 63)])
def test_every_seed_of_pytorch(seed):
    torch.manual_seed(seed)
    first = torch.rand(4, device="hpu").cpu()
    torch.hpu.manual_seed(seed)
    assert torch.equal(torch.rand(4, device="hpu").cpu(), first)
    assert torch.hpu.initial_seed() == seed % (1 << 64)


@pytest.mark.parametrize("seed", [1 << 64, -(1 << 63) - 1])
def test_other_seeds_are_refused(seed):
    with pytest.raises(RuntimeError, match="is not in the range"):
        torch.hpu.manual_seed(seed)
