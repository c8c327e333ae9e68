"""The exception that commands raise."""

from __future__ import annotations


class CommandError(Exception):
    """A mistake of the user, or something that is missing; printed without a trace."""
