"""Pipelines as iterators of frameworks."""
