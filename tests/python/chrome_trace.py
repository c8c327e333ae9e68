"""Checks the properties that viewers of Chrome traces rely on."""

from __future__ import annotations

from collections import defaultdict


def check_nesting(intervals) -> None:
    """Checks of any two intervals of a row that one contains the other or they are apart."""
    open_ends: list[float] = []
    for start, end, name in sorted(intervals, key=lambda i: (i[0], -i[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], name
        open_ends.append(end)


def check_chrome_trace(content) -> dict[tuple[int, int], list]:
    """Fields that viewers need; intervals by row."""
    rows = defaultdict(list)
    starts, ends = {}, {}
    for event in content["traceEvents"]:
        assert event["ph"] in "XMsf"
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            rows[event["pid"], event["tid"]].append(event)
        elif event["ph"] in "sf":
            (starts if event["ph"] == "s" else ends)[event["id"]] = event["ts"]
    for events in rows.values():
        times = [e["ts"] for e in events]
        assert times == sorted(times)
        check_nesting((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events)
    assert starts.keys() == ends.keys()
    assert all(starts[i] <= ends[i] for i in starts)
    return rows
