"""The operators of pipelines; fn.py has the list of them."""
