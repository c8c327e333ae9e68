"""ModuleCacher: modules that train with captured forwards and backwards."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn

from .cache import GraphCache
from .wrapped import tell_what_changes_nothing

_log = logging.getLogger("habana_frameworks.torch")


class ModuleCacher:
    """Captures the training calls of a module, forward and backward. Calls in evaluation mode or
    without gradients run as they are."""

    def __init__(self, max_graphs: int = 10) -> None:
        self.max_graphs = max_graphs

    def __call__(
        self,
        model: nn.Module,
        use_lfu: bool = False,
        inplace: bool = True,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        have_grad_accumulation: bool = False,
        log_frequency: int = 100,
        verbose: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
    ) -> nn.Module:
        """Changes the model in place, or returns a new one that shares its parameters, and gives it
        the methods capture_start, capture_end, set_iteration_count and is_hpugraph_tracing.

        use_lfu: only those max_graphs calls are captured that come most often between
        capture_start() and capture_end(); by default those that come first are. verbose: logs
        figures at each `log_frequency` calls. Arguments and parameters may be unused. The others
        change nothing.
        """
        tell_what_changes_nothing(
            asynchronous=asynchronous,
            have_grad_accumulation=have_grad_accumulation,
            disable_tensor_cache=disable_tensor_cache,
            dry_run=dry_run,
        )
        model = model if inplace else copy.copy(model)
        forward = _TrainingForward(model, self.max_graphs, use_lfu, log_frequency if verbose else 0)
        model.orig_forward = model.forward  # type: ignore[assignment]
        model.forward = forward
        model.capture_start = forward.capture_start  # type: ignore[assignment]
        model.capture_end = forward.capture_end  # type: ignore[assignment]
        model.set_iteration_count = forward.set_iteration_count  # type: ignore[assignment]
        model.is_hpugraph_tracing = forward.is_tracing  # type: ignore[assignment]
        return model


class _TrainingForward:
    def __init__(self, model: nn.Module, max_graphs: int, use_lfu: bool, log_every: int) -> None:
        self._model = model
        self._function: Callable[..., Any] = model.forward
        self._log_every = log_every
        self._calls = 0
        self._use_lfu = use_lfu
        self._counting = False
        self._counts: Counter[Hashable] = Counter()
        self._chosen: set[Hashable] = set()
        self._tracing = False
        self.graphs = GraphCache(
            self._forward, model, max_graphs, admit=self._admit, with_backward=True
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls += 1
        if self._log_every and self._calls % self._log_every == 0:
            _log.info(
                "%s: %d calls, %d HPU graphs, %d replays",
                type(self._model).__name__,
                self._calls,
                len(self.graphs),
                self.graphs.replays,
            )
        if self._model.training and torch.is_grad_enabled():
            return self.graphs(*args, **kwargs)
        return self._function(*args, **kwargs)

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        self._tracing = True
        try:
            return self._function(*args, **kwargs)
        finally:
            self._tracing = False

    def _admit(self, key: Hashable) -> bool:
        if self._counting:
            self._counts[key] += 1
        return not self._counting and (not self._use_lfu or key in self._chosen)

    def capture_start(self) -> None:
        """Counts the calls from now on, and captures none."""
        self._counting = self._use_lfu
        self._counts.clear()

    def capture_end(self) -> None:
        """Chooses the calls that are captured from now on."""
        self._counting = False
        self._chosen = {key for key, _ in self._counts.most_common(self.graphs.max_graphs)}

    def set_iteration_count(self, iter_num: int) -> None:
        """Changes nothing: gradients accumulate outside of the captures."""

    def is_tracing(self) -> bool:
        return self._tracing
