"""Errors that a user asked for by an option."""

from __future__ import annotations


class AskedForError(RuntimeError):
    """Something has no program, and by an option nothing may run in another way then. Whoever would
    do so lets it pass (backend/torch/record/front_end.h, hpu/graphs/)."""
