"""Text of user code, equal in any process: what a graph's key and a start depend on."""
