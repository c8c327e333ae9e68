"""Does a Dynamo graph's operations on streams and events around its program.

A program runs on one stream, the current one. So the current stream waits for the other streams of
the graph and for the events that the graph waits for before the program starts, and the other
streams wait for the program. Events are recorded, and streams synchronized, after the program; if
nothing is computed before them in the graph, then before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from ...torch_compat.stream_calls import (
    ANNOTATIONS,
    CURRENT_STREAM_INDEX,
    STREAM_CALLS,
    get_external_object_by_index,
)
from .binding import Compiled

Step = tuple[str, tuple[Any, ...]]  # a call below, and the arguments of its node


def _current() -> torch.Stream:
    return torch.accelerator.current_stream()


_CALLS: dict[str, Callable[..., None]] = {
    "record_event": lambda event, _: _object(event).record(_current()),
    "wait_event": lambda event, _: _current().wait_event(_object(event)),
    "synchronize_event": lambda event: _object(event).synchronize(),
    "synchronize_stream": lambda stream: _stream(stream).synchronize(),
    "synchronize_device": lambda *_: torch.accelerator.synchronize(),
}
_IN_TURN = ("record_event", "synchronize_event", "synchronize_stream", "synchronize_device")


def _object(index: int) -> Any:
    return get_external_object_by_index(index)


def _stream(index: int) -> torch.Stream:
    """The table has the stream that was current when the graph was traced."""
    return _current() if index == CURRENT_STREAM_INDEX else _object(index)


@dataclass
class StreamWork:
    """The work, and the graph without it."""

    module: torch.fx.GraphModule
    streams: set[int] = field(default_factory=set)  # all but the current one
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)

    def bind(self, compiled: Compiled) -> Compiled:
        """compiled: the graph without the work."""

        def run(*args: Any) -> Any:
            others = [_stream(index) for index in sorted(self.streams)]
            for other in others:
                _current().wait_stream(other)
            _do(self.before)
            result = compiled(*args)
            for other in others:
                other.wait_stream(_current())
            _do(self.after)
            return result

        return run


def _do(steps: Sequence[Step]) -> None:
    for name, arguments in steps:
        _CALLS[name](*arguments)


def split_stream_work(module: torch.fx.GraphModule) -> StreamWork | None:
    """None if the graph has no such work. Calls that take tensors stay in the graph."""
    nodes = list(module.graph.nodes)
    names = {node: STREAM_CALLS.get(node.target, "") for node in nodes}
    streams = {node.meta.get(ANNOTATIONS, {}).get("stream") for node in nodes}
    if not any(names.values()) and streams == {None}:
        return None
    work = StreamWork(module)
    computes, recorded = False, set()
    for node in nodes:
        name, arguments = names[node], node.args
        if not name:
            computes |= node.op.startswith("call_") and not _is_lookup(node)
        elif name == "wait_event" and arguments[0] not in recorded:
            work.before.append((name, arguments))
        elif name in _IN_TURN:
            (work.after if computes else work.before).append((name, arguments))
        if name == "record_event":
            recorded.add(arguments[0])
        if name in ("wait_event", "record_event"):
            streams.add(arguments[1])
        elif name in ("wait_stream", "synchronize_stream"):
            streams.update(arguments)
    work.streams = {index for index in streams if isinstance(index, int)} - {CURRENT_STREAM_INDEX}
    work.module = _without(module, {node for node in nodes if names[node]})
    return work


def _is_lookup(node: torch.fx.Node) -> bool:
    return node.target is get_external_object_by_index


def _without(module: torch.fx.GraphModule, dropped: set[torch.fx.Node]) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    values: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        unread = _is_lookup(node) and dropped.issuperset(node.users)
        if node not in dropped and not unread:
            values[node] = graph.node_copy(node, values.__getitem__)
    made = torch.fx.GraphModule(module, graph)
    made.meta.update(module.meta)
    return made
