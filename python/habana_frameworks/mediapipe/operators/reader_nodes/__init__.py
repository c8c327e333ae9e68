"""Operators that begin each batch."""
