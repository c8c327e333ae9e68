"""The class from which the functions of fn.MediaFunc inherit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class media_function(ABC):
    """A function that makes an array for each batch."""

    @abstractmethod
    def __init__(self, params: dict[str, Any]) -> None:
        """`params` has shape (of the result, the fastest axis first), dtype, seed, priv_params, and
        unique_number, which is another one for each function of a pipeline."""

    @abstractmethod
    def __call__(self, *inputs: Any) -> Any:
        """The array for the next batch, in numpy's order of axes; inputs are numpy arrays."""
