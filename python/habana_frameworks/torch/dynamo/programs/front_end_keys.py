"""Front-end keys, and the programs that this process or the store has under them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ... import native
from ..fingerprints.function_text import Uncacheable
from ..keys.graph_key import Factors
from ..records.ranges import host_range
from ..records.records import GraphRecord
from .service import FrontEndKey, Loaded, UnusableProgram, service


def front_end_key(
    factors: Callable[[], Factors], options: Mapping[str, str], label: str, record: GraphRecord
) -> FrontEndKey | None:
    """Returns None where the things that a graph refers to cannot be described (`factors` raises
    Uncacheable); such a graph is captured in every process."""
    started = time.perf_counter()
    build_id = service.build_id
    try:
        of_graph = factors()
    except Uncacheable as error:
        record.cacheable = False
        record.reason = f"captured in every process: {error}"
        return None
    builder = native.client_module().KeyBuilder()
    device = native.torch_module()
    for factor in (
        ("compiler", build_id),
        ("device", device.device_kind()),
        ("isa_level", device.isa_level()),
        *sorted(options.items()),
        *of_graph,
    ):
        builder.field(*factor)
    key: bytes = builder.digest()
    record.front_end_key = key.hex()
    record.factors = list(builder.factors())
    record.key_ms = (time.perf_counter() - started) * 1e3
    return FrontEndKey(key, record.factors, label)


def stored_program(
    front_end: FrontEndKey, name: str, record: GraphRecord, keep: bool = True
) -> Loaded | None:
    """The program that the store has under the key; None on a miss, or if it is unusable: the
    record then says why, and the compilation replaces it. keep: the service remembers it."""
    try:
        with host_range(f"hpu::fetch {name}"):
            return service.fetch(front_end.key, record, keep)
    except UnusableProgram as error:
        record.unusable = str(error)
        return None
