"""Patches for what Dynamo must know, or do otherwise, while it traces for hpu."""
