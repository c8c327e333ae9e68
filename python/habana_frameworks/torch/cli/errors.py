"""What commands raise."""

from __future__ import annotations


class CommandError(Exception):
    """What the user did wrong or what is missing; printed without a trace."""
