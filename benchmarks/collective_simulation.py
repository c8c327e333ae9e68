#!/usr/bin/env python3
"""Simulates an all-reduce of many ranks in several forms, from times that were measured with two.

    collective_simulation.py [--ranks 8,64,512] [--per-host 8] [--gbit 100] [--hop 10]

The times come from the last runs of collectives.py (ranks of one host) and between_hosts.py (two
hosts): what a message costs, and what a byte of it costs. A rank handles one message at a time; the
ranks of a host share one network card in each direction. The cable's speed and delay are arguments,
because no network is measured here. The model has no lost messages and no ranks that come late.

The forms are: "whole" (each rank sends all it has to all others), "direct" (each rank adds up a
part and sends the sum to all others: what the emulated device does, "whole" for small buffers),
"ring", "tree" (sums go up a binary tree and the result goes down, in one piece), "halves"
(recursive halving and doubling) and "hosts" (direct inside each host, and rings of the ranks that
have the same place in their hosts).
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tables import number, table

RESULTS = Path(__file__).resolve().parent / "results"
SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
# A step of a rank: what it sends, by receiver, once it has what it waits for, by sender.
Step = tuple[dict[int, float], set[int]]
Form = Callable[[int, int, int, float], Iterator[Step]]


@dataclass(frozen=True)
class Costs:
    """Seconds that one message of a rank takes, and one byte of it."""

    message: float
    byte: float


@dataclass(frozen=True)
class Model:
    inside: Costs  # between ranks of one host
    outside: Costs  # between hosts, without the cable
    per_host: int
    cable_byte: float
    hop: float


def whole(rank: int, ranks: int, _: int, size: float) -> Iterator[Step]:
    others = set(range(ranks)) - {rank}
    yield dict.fromkeys(others, size), others


def direct(rank: int, ranks: int, _: int, size: float) -> Iterator[Step]:
    others = set(range(ranks)) - {rank}
    for _ in range(2):
        yield dict.fromkeys(others, size / ranks), others


def ring(rank: int, ranks: int, _: int, size: float) -> Iterator[Step]:
    for _ in range(2 * (ranks - 1)):
        yield {(rank + 1) % ranks: size / ranks}, {(rank - 1) % ranks}


def tree(rank: int, ranks: int, _: int, size: float) -> Iterator[Step]:
    children = {c for c in (2 * rank + 1, 2 * rank + 2) if c < ranks}
    parent = {(rank - 1) // 2} - {rank} if rank else set()
    yield {}, children
    yield dict.fromkeys(parent, size), parent
    yield dict.fromkeys(children, size), set()


def halves(rank: int, ranks: int, _: int, size: float) -> Iterator[Step]:
    """For a number of ranks that is a power of two."""
    rounds = [1 << i for i in range(ranks.bit_length() - 1)]
    parts = [size / (2 << i) for i in range(len(rounds))]
    there = list(zip(reversed(rounds), parts, strict=True))
    for distance, bytes_ in [*there, *reversed(there)]:
        yield {rank ^ distance: bytes_}, {rank ^ distance}


def hosts(rank: int, ranks: int, per_host: int, size: float) -> Iterator[Step]:
    first = rank - rank % per_host
    neighbours = set(range(first, min(first + per_host, ranks))) - {rank}
    part = size / (len(neighbours) + 1)
    count = -(-ranks // per_host)
    yield dict.fromkeys(neighbours, part), neighbours
    for _ in range(2 * (count - 1)):
        yield {(rank + per_host) % ranks: part / count}, {(rank - per_host) % ranks}
    yield dict.fromkeys(neighbours, part), neighbours


FORMS: dict[str, Form] = {
    "whole": whole,
    "direct": direct,
    "ring": ring,
    "tree": tree,
    "halves": halves,
    "hosts": hosts,
}


class Simulation:
    """Ranks that work through the steps of one form."""

    def __init__(self, model: Model, form: Form, ranks: int, size: float) -> None:
        self._model = model
        self._steps = [form(rank, ranks, model.per_host, size) for rank in range(ranks)]
        self._current: list[set[int] | None] = [set()] * ranks  # the senders waited for
        self._missing = [0] * ranks  # how many of these have sent nothing yet
        self._arrived: list[dict[int, int]] = [{} for _ in range(ranks)]
        self._core = [0.0] * ranks
        count = -(-ranks // model.per_host)
        self._card_out, self._card_in = [0.0] * count, [0.0] * count
        self._order = itertools.count()
        self._events: list[tuple[float, int, int, int, float]] = []

    def run(self) -> float:
        """Seconds until the last rank has done its last step."""
        for rank in range(len(self._core)):
            self._go_on(rank)
        while self._events:
            now, _, sender, receiver, size = heapq.heappop(self._events)
            costs = self._costs(sender, receiver)
            start = max(now, self._core[receiver])
            self._core[receiver] = start + costs.message + size * costs.byte
            arrived = self._arrived[receiver]
            arrived[sender] = arrived.get(sender, 0) + 1
            if arrived[sender] == 1 and sender in (self._current[receiver] or ()):
                self._missing[receiver] -= 1
                self._go_on(receiver)
        assert all(step is None for step in self._current), "a rank waits for ever"
        return max(self._core)

    def _go_on(self, rank: int) -> None:
        """Does the steps of a rank whose messages have arrived."""
        arrived = self._arrived[rank]
        while (wanted := self._current[rank]) is not None and self._missing[rank] == 0:
            for sender in wanted:
                arrived[sender] -= 1
            step = next(self._steps[rank], None)
            self._current[rank] = None if step is None else step[1]
            if step is not None:
                self._missing[rank] = sum(arrived.get(sender, 0) == 0 for sender in step[1])
                for receiver, size in step[0].items():
                    self._send(rank, receiver, size)

    def _send(self, sender: int, receiver: int, size: float) -> None:
        model, costs = self._model, self._costs(sender, receiver)
        now = self._core[sender] + costs.message + size * costs.byte
        self._core[sender] = now
        here, there = sender // model.per_host, receiver // model.per_host
        if here != there:
            left = max(now, self._card_out[here]) + size * model.cable_byte
            self._card_out[here] = left
            now = max(left + model.hop, self._card_in[there] + size * model.cable_byte)
            self._card_in[there] = now
        heapq.heappush(self._events, (now, next(self._order), sender, receiver, size))

    def _costs(self, sender: int, receiver: int) -> Costs:
        model = self._model
        same = sender // model.per_host == receiver // model.per_host
        return model.inside if same else model.outside


def costs_of(small: tuple[int, float], large: tuple[int, float]) -> Costs:
    """From the bytes and seconds of two all-reduces of two ranks: each rank sends and receives as
    many bytes as the buffer has, the small buffer in one message, the large one in two."""
    byte = (large[1] - small[1]) / (2 * (large[0] - small[0]))
    return Costs(max(small[1] / 2 - byte * small[0], 0.0), byte)


def measured() -> tuple[Costs, Costs]:
    """Inside a host, and between hosts."""

    def median(path: str, key: str) -> float:
        data = json.loads((RESULTS / path).read_text())
        return statistics.median(each[key] for each in data.get("rounds", data)["hccl"])

    small, large = SIZES["4 KiB"], SIZES["64 MiB"]
    inside = [median("collectives.json", f"all_reduce {name}") for name in ("4 KiB", "64 MiB")]
    outside = [median("between_hosts.json", name) for name in ("4 KiB", "64 MiB")]
    return (
        costs_of((small, inside[0]), (large, inside[1])),
        costs_of((small, outside[0]), (large, outside[1])),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="8,64,512")
    parser.add_argument("--per-host", type=int, default=8)
    parser.add_argument("--gbit", type=float, default=100, help="of a host's network card")
    parser.add_argument("--hop", type=float, default=10, help="microseconds on the cable")
    a = parser.parse_args()
    inside, outside = measured()
    model = Model(inside, outside, a.per_host, 8e-9 / a.gbit, a.hop * 1e-6)
    costs = [
        f"{each.message * 1e6:.1f} us and {each.byte * 1e9:.3f} ns a byte {where}"
        for each, where in ((inside, "inside a host"), (outside, "between hosts"))
    ]
    print(f"A message costs a rank {costs[0]}, {costs[1]};")
    print(f"{a.per_host} ranks a host, {a.gbit:g} Gbit/s, {a.hop:g} us. Milliseconds:\n")
    rows = []
    for ranks, (name, size) in itertools.product(map(int, a.ranks.split(",")), SIZES.items()):
        times = {}
        for form, function in FORMS.items():
            # A rank would send 512 times 64 MiB: minutes to say that it is the slowest form.
            if form == "whole" and size * ranks > 1 << 28:
                continue
            times[form] = Simulation(model, function, ranks, size).run() * 1e3
        rows.append([f"{ranks}, {name}", *(number(times.get(form)) for form in FORMS)])
    print("\n".join(table(["ranks, buffer", *FORMS], rows)))


if __name__ == "__main__":
    main()
