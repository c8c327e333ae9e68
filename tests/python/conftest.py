"""Shared fixtures of the Python tests."""
