"""How tests wait for an event that nothing signals to them."""

from __future__ import annotations

import time
from collections.abc import Callable

# Whatever takes longer than this hangs: no machine is so slow. Only a hang is told by a clock.
HANG_LIMIT_S = 60.0


def wait_until(
    condition: Callable[[], object],
    what: object = "it did not happen",
    seconds: float = HANG_LIMIT_S,
) -> None:
    """Asks until the condition is true. `what` is shown if that takes longer than `seconds`; a
    function is called for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.005)
