"""Text of user code that is equal in every process: a graph's key and a start depend on it."""
