"""Graphs that our capture refuses, as AOTAutograd partitions them: the last resort."""
