"""The programs of a stored start, fetched by their front-end keys as on any other hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..programs.binding import bind_program, describe_program, log_record, note_stored, warn_once
from ..programs.request import Settings
from ..programs.service import NoProgram, UnusableProgram, service
from ..records import fallback_list, graph_watch, op_watch, records
from ..records.ranges import host_range
from ..records.records import GraphRecord
from .describe import Refused
from .graphs import StoredGraph


class GraphLoader:
    """Loads the graphs of one frame, which enter the report once all of them could be loaded."""

    def __init__(self, settings: Settings, compile_id: str) -> None:
        self._settings = settings
        self._compile_id = compile_id
        self._records: list[GraphRecord] = []

    def bind(self, graph: StoredGraph) -> Callable[..., Any]:
        """The callable for Dynamo's bytecode. Raises Refused."""
        if graph_watch.is_watched() or op_watch.is_watched() or op_watch.are_logs_read():
            raise Refused("somebody watches captured graphs")
        if fallback_list.names:
            raise Refused("hpu_fallback_op_list names operators")
        changed = graph.difference()
        if changed:
            raise Refused(changed)
        name = f"graph_{records.graph_count() + len(self._records)}"
        record = GraphRecord(name, graph.source, self._compile_id, traced=False)
        self._records.append(record)
        if not graph.front_end_key:
            record.reason = graph.reason
            forward: Callable[..., Any] = graph.bind_forward()
            return forward
        key = bytes.fromhex(graph.front_end_key)
        record.front_end_key, record.factors = graph.front_end_key, graph.factors
        try:
            loaded = service.remembered(key)
            if loaded is not None:
                record.origin = "memory"
            else:
                with host_range(f"hpu::fetch {name}"):
                    loaded = service.fetch(key, record)
        except (NoProgram, UnusableProgram) as error:
            raise Refused(f"its program is not available: {error}") from error
        if loaded is None:
            raise Refused("its program has left the store")
        describe_program(record, loaded, bool(self._settings["use_eager_fallback"]))
        return bind_program(loaded.program, record, (), graph.bind_forward)

    def commit(self) -> None:
        for record in self._records:
            records.add(record)
            note_stored(record)
            log_record(record)
            if record.origin == "eager":
                warn_once(f"{record.name} runs eagerly: {record.reason}")
