"""From a Dynamo graph to a captured graph (graph/captured_graph.h)."""
