"""ATen ops for which the compile server has no rule, as ops that it knows."""
