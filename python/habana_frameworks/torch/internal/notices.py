"""Warnings, once per process, about settings that are accepted and change nothing."""

from __future__ import annotations

import logging

import torch

_log = logging.getLogger("habana_frameworks.torch")
_said: set[str] = set()


def once(text: str) -> None:
    """Logs one warning per text. It is silent inside a graph that is being compiled, because a log
    call would break the graph."""
    if torch.compiler.is_compiling() or text in _said:
        return
    _said.add(text)
    _log.warning("%s", text)


def without_effect(what: str, why: str) -> None:
    """Warns once that `what` changes nothing, and why."""
    once(f"{what} has no effect: {why}")
