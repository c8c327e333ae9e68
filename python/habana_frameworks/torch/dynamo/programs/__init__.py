"""How a graph gets its program, and what calls it."""
