"""Ports for the servers of tests."""

from __future__ import annotations

import itertools
import os
import socket

# Below the ports that Linux gives to connections (from 32,768 on), so that no connection takes one
# before the server does. tests/free_port.h uses those below 20,000 and their buses' below 30,000.
_FIRST, _COUNT = 30_000, 2_700
_numbers = itertools.count(os.getpid() * 211)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port of the loopback on which nobody listens; another one for each call."""
    candidates = (_FIRST + number % _COUNT for number in itertools.islice(_numbers, _COUNT))
    return next(port for port in candidates if _is_free(port))
