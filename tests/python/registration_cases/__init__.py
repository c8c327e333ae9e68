"""Programs whose graphs depend on code that the graph does not show: what is registered for its
operators, and what its functions refer to.

As a package this is one version of the programs; registration_process.py makes another one of its
texts by writing another number for 41.0. Each case is a function of `compiled`, a way to compile,
and gives the tensors that eager gives where `compiled` changes nothing.
"""

# The fragment of a library, and functions, call operators that the first module defines.
from . import custom_ops, libraries, pytorch_operators, whole_functions  # noqa: F401
from .programs import CASES

__all__ = ["CASES"]
