"""HabanaDataLoader: PyTorch's DataLoader, whose iteration is replaced where that is possible."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from .batches import BatchIterator
from .conditions import Unsupported, check_dataset, check_parameters, steps_of

_SIGNATURE = inspect.signature(DataLoader.__init__)


class HabanaDataLoader(DataLoader[Any]):
    """Takes the arguments of torch.utils.data.DataLoader and gives the same samples in the same
    order.

    With the parameters of docs/data_loader.md photographs are decoded in threads of C++, and
    batches are tensors of hpu. With others it is PyTorch's DataLoader, after two lines that say
    why; `fallback_activated` is True then.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        problem = _problem(self, args, kwargs)
        with warnings.catch_warnings():
            if problem is None:
                # There are no worker processes whose number could be too large.
                warnings.filterwarnings("ignore", "This DataLoader will create")
            super().__init__(*args, **kwargs)
        self.fallback_activated = False
        if problem is not None:
            self._fall_back(problem)

    def _fall_back(self, problem: Unsupported) -> None:
        self.fallback_activated = True
        print(f"Failed to initialize Habana Dataloader, error: {problem}")
        print("Running with PyTorch Dataloader")

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if not self.fallback_activated:
            # The data set may have been given other transforms since.
            try:
                steps, normalized = steps_of(self.dataset.transform)  # type: ignore[attr-defined]
                return BatchIterator(self, steps, normalized)
            except Unsupported as problem:
                self._fall_back(problem)
        return super().__iter__()


def _problem(loader: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Unsupported | None:
    try:
        given = _SIGNATURE.bind(loader, *args, **kwargs).arguments
    except TypeError:
        return None  # PyTorch's constructor raises the same error.
    try:
        check_parameters({**_defaults(), **given})
        check_dataset(given["dataset"])
        steps_of(given["dataset"].transform)
    except Unsupported as problem:
        return problem
    return None


def _defaults() -> dict[str, Any]:
    return {name: parameter.default for name, parameter in _SIGNATURE.parameters.items()}
