"""Graphs that our capture refuses, as AOTAutograd partitions them. This is the last resort before
eager execution."""
