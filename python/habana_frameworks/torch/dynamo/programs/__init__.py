"""How a graph gets its program, and how the program is called."""
