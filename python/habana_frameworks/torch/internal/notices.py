"""What is accepted and changes nothing says so, once per process."""

from __future__ import annotations

import logging

import torch

_log = logging.getLogger("habana_frameworks.torch")
_said: set[str] = set()


def once(text: str) -> None:
    """Logs one warning per text. Inside a graph that is being compiled it is silent: a log call
    would break the graph."""
    if torch.compiler.is_compiling() or text in _said:
        return
    _said.add(text)
    _log.warning("%s", text)


def without_effect(what: str, why: str) -> None:
    """Says once that `what` changes nothing, and why."""
    once(f"{what} has no effect: {why}")
