"""Fixtures for the tests of hpex."""

from __future__ import annotations

import pytest


@pytest.fixture
def hmp_off_afterwards():
    """Whatever a test converts is as before for the next one."""
    from habana_frameworks.torch.hpex import hmp
    from habana_frameworks.torch.hpex.hmp import conversion

    yield
    hmp.convert()  # without lines
    conversion._mode.__exit__(None, None, None)
