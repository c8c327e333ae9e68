"""Defines every operator of the namespace when it is imported."""

from __future__ import annotations

from . import rotary as rotary
