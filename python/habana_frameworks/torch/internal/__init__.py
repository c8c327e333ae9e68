"""Modules that this package shares and that the reference does not expose."""
