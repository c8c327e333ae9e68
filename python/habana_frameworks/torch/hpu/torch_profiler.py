"""Patches two places where torch.profiler of PyTorch 2.13 leaves hpu out of its lists of devices.

PyTorch takes the device's events (ProfilerActivity.HPU), but does not add their time to the
operator that queued them, and its table fails on them with an assertion.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from torch.autograd import profiler as autograd_profiler
from torch.autograd import profiler_util

from ..torch_compat.devices import DeviceType


def _with_device_times(parse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse)
    def parse_kineto_results(self: Any, *args: Any, **kwargs: Any) -> Any:
        events = parse(self, *args, **kwargs)
        operators = {
            event.id: event
            for event in events
            if event.device_type == DeviceType.CPU and not event.is_async
        }
        for event in events:
            operator = operators.get(event.linked_correlation_id)
            if event.device_type == DeviceType.HPU and operator is not None:
                operator.append_kernel(
                    event.name, event.device_index, event.time_range.elapsed_us()
                )
        return events

    return parse_kineto_results


def _with_hpu_rows(build_table: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(build_table)
    def build_table_of_any_device(events: Any, *args: Any, **kwargs: Any) -> str:
        shown = copy.copy(events)
        for i, event in enumerate(shown):
            if event.device_type == DeviceType.HPU:
                # The copy gets a kind of device that the table adds up; the kind is not in the
                # printed text.
                shown[i] = copy.copy(event)
                shown[i].device_type = DeviceType.PrivateUse1
        return build_table(shown, *args, **kwargs)

    return build_table_of_any_device


def complete() -> None:
    """Makes both places accept hpu. To be called once."""
    profile: Any = autograd_profiler.profile
    profile._parse_kineto_results = _with_device_times(profile._parse_kineto_results)
    tables: Any = profiler_util
    tables._build_table = _with_hpu_rows(tables._build_table)
