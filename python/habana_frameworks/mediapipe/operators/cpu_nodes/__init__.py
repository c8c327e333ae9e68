"""Operators that have no pixels to calculate."""
