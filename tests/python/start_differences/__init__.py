"""One difference each between the process that stored a start and the one that may load it."""

from . import of_arguments, of_code, of_models, of_processes  # noqa: F401
from .difference import DIFFERENCES

__all__ = ["DIFFERENCES"]
