"""The sample calls of aten_samples.py, by family."""
