"""Explains why a graph's program was found, or had to be made, by comparing its key with the
nearest known one."""

from __future__ import annotations

from dataclasses import dataclass

from ..dynamo.programs.local_daemon import open_client, running_socket
from ..dynamo.records.records import GraphRecord, nearest
from .document import Difference, Lookup

MAX_DIFFERENCES = 12
_MAX_VALUE = 200

# The text for people about the origins of a program (records.py).
_HITS = {
    "store": "The store had its program.",
    "memory": "This process had its program loaded.",
}
_MISSES = {
    "compiled": "Its program was compiled.",
    "coalesced": "Another request compiled its program at the same time.",
}


@dataclass(frozen=True)
class Known:
    """A known graph with a key."""

    name: str
    key: str
    factors: list[tuple[str, str]]


def stored(other_than: set[str]) -> list[Known]:
    """The graphs of the store whose keys are not among these; none if no daemon runs."""
    if running_socket() is None:
        return []
    try:
        programs = list(open_client()[0].list())
    except (OSError, RuntimeError):
        return []
    return [
        Known(alias["label"], alias["front_end_key"], alias["factors"])
        for program in programs
        for alias in program["aliases"]
        if alias["front_end_key"] not in other_than
    ]


def lookup(record: GraphRecord, known: list[Known]) -> Lookup:
    if record.origin in _HITS:
        # The program was found by its content key: an equal graph had been captured under another
        # front-end key.
        if record.origin == "store" and record.capture_ms:
            return _compared(
                record, known, True, "The store had the program of an equal graph of another key."
            )
        return Lookup(True, _HITS[record.origin])
    if record.origin == "eager":
        return Lookup(False, f"It has no program: {record.reason}")
    if record.unusable:
        return Lookup(False, f"It was compiled anew: {record.unusable}")
    if not record.cacheable:
        return Lookup(False, f"It has no key: {record.reason}")
    sentence = _MISSES.get(record.origin, record.origin)
    return _compared(record, known, False, f"{sentence} No program was known by its key.")


def _compared(record: GraphRecord, known: list[Known], hit: bool, sentence: str) -> Lookup:
    others = {k.key: k for k in known if k.key != record.front_end_key}
    best = nearest(record.factors, {key: k.factors for key, k in others.items()})
    if best is None:
        return Lookup(hit, f"{sentence} It is the first graph that the store and this process see.")
    key, differences = best
    shown = [
        Difference(d.factor, d.ours[:_MAX_VALUE], d.theirs[:_MAX_VALUE])
        for d in differences[:MAX_DIFFERENCES]
    ]
    return Lookup(hit, sentence, f"{others[key].name} ({key[:12]})", shown)
