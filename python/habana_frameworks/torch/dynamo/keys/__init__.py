"""The front-end key of a Dynamo graph."""
