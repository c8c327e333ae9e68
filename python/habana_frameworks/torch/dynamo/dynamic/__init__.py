"""Graphs whose sizes or numbers change from call to call."""
