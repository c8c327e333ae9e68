"""How a new process gets its first output without Dynamo's tracing (docs/decisions/0023).

A frame that Dynamo has traced leaves a start: its guards as facts, its bytecode, and the keys of
its programs. In another process of the same user the facts are compared, the programs are fetched,
and Dynamo's frame evaluation gets what it would have got from a trace.
"""
