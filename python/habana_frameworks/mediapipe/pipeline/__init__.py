"""Graphs of operators and their execution; operators/ has the operators themselves."""
