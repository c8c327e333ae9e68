"""ATen ops for which the compile server has no rule, expressed by ops that it knows."""
