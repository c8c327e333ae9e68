"""The layered layout of a drawing: nodes in rows by longest path, with rows ordered to cross few
edges.

The method is Sugiyama's: layers; long edges become chains of waypoints; barycentre sweeps;
positions that lie as near to the neighbours' mean as order and widths allow (isotonic regression
per row).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

from .document import Drawing, Node

ROW_HEIGHT = 74.0
NODE_HEIGHT = 44.0
GAP = 18.0
WAYPOINT_WIDTH = 6.0
# Edges over more rows than this are drawn as straight lines.
MAX_SPAN = 24
_SWEEPS = 6


@dataclass(frozen=True)
class Box:
    """The place of a node: its centre and its width."""

    x: float
    y: float
    width: float


@dataclass(frozen=True)
class Layout:
    boxes: list[Box]  # by node id
    paths: list[list[tuple[float, float]]]  # by edge: from the lower rim of the source on
    width: float
    height: float


def node_lines(node: Node) -> tuple[str, str]:
    """The two lines of text on a node."""
    return _cut(node.op, 26), _cut(node.type, 30)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _width(node: Node) -> float:
    name, type = node_lines(node)
    return max(64.0, 7.4 * len(name) + 20, 6.2 * len(type) + 20)


def arrange(drawing: Drawing) -> Layout:
    """Places the nodes with coordinates from 0 to width and height."""
    if not drawing.nodes:
        return Layout([], [], 0.0, 0.0)
    layers = _layers(drawing)
    grid = _Grid(drawing, layers)
    grid.order()
    x = grid.positions()
    left = min(x[v] - grid.widths[v] / 2 for v in range(len(x)))
    right = max(x[v] + grid.widths[v] / 2 for v in range(len(x)))
    boxes = [
        Box(x[n.id] - left, layers[n.id] * ROW_HEIGHT + NODE_HEIGHT / 2, grid.widths[n.id])
        for n in drawing.nodes
    ]
    paths = []
    for (source, target), chain in zip(drawing.edges, grid.chains, strict=True):
        a, b = boxes[source], boxes[target]
        middle = [(x[v] - left, grid.layer_of[v] * ROW_HEIGHT + NODE_HEIGHT / 2) for v in chain]
        paths.append([(a.x, a.y + NODE_HEIGHT / 2), *middle, (b.x, b.y - NODE_HEIGHT / 2)])
    height = max(layers) * ROW_HEIGHT + NODE_HEIGHT
    return Layout(boxes, paths, right - left, height)


def _layers(drawing: Drawing) -> list[int]:
    """The row of each node: its longest path from a source. Sources move down to their first
    reader. Ids are in order."""
    layers = [0] * len(drawing.nodes)
    readers = defaultdict(list)
    has_operand = set()
    for source, target in sorted(drawing.edges, key=lambda edge: edge[1]):
        layers[target] = max(layers[target], layers[source] + 1)
        readers[source].append(target)
        has_operand.add(target)
    for node in drawing.nodes:
        if node.id not in has_operand and readers[node.id]:
            layers[node.id] = min(layers[r] for r in readers[node.id]) - 1
    return layers


class _Grid:
    """The nodes and waypoints in their rows."""

    def __init__(self, drawing: Drawing, layers: list[int]) -> None:
        self.layer_of = list(layers)
        self.widths = [_width(node) for node in drawing.nodes]
        self.chains: list[list[int]] = []
        self._up: dict[int, list[int]] = defaultdict(list)
        self._down: dict[int, list[int]] = defaultdict(list)
        for source, target in drawing.edges:
            chain = []
            previous = source
            rows = range(layers[source] + 1, layers[target])
            for row in rows if len(rows) <= MAX_SPAN else ():
                chain.append(len(self.layer_of))
                self.layer_of.append(row)
                self.widths.append(WAYPOINT_WIDTH)
                self._link(previous, chain[-1])
                previous = chain[-1]
            if len(rows) <= MAX_SPAN:
                self._link(previous, target)
            self.chains.append(chain)
        self._rows: list[list[int]] = [[] for _ in range(max(self.layer_of) + 1)]
        for vertex, row in enumerate(self.layer_of):
            self._rows[row].append(vertex)

    def _link(self, upper: int, lower: int) -> None:
        self._down[upper].append(lower)
        self._up[lower].append(upper)

    def order(self) -> None:
        place = {v: float(i) for row in self._rows for i, v in enumerate(row)}
        for sweep in range(_SWEEPS):
            downward = sweep % 2 == 0
            near = self._up if downward else self._down
            for row in self._rows if downward else reversed(self._rows):
                row.sort(
                    key=lambda v: (
                        sum(place[n] for n in near[v]) / len(near[v]) if near[v] else place[v]
                    )
                )
                for i, vertex in enumerate(row):
                    place[vertex] = i - len(row) / 2

    def positions(self) -> list[float]:
        x = [0.0] * len(self.layer_of)
        for row in self._rows:
            self._place(row, x, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            downward = sweep % 2 == 0
            for row in self._rows if downward else reversed(self._rows):
                wanted = []
                for vertex in row:
                    near = (self._up if downward else self._down)[vertex]
                    wanted.append(sum(x[n] for n in near) / len(near) if near else x[vertex])
                self._place(row, x, wanted)
        return x

    def _place(self, row: list[int], x: list[float], wanted: list[float]) -> None:
        """Places the row by least squares to the wanted positions, in order and without
        overlaps."""
        offsets = [0.0]
        for a, b in itertools.pairwise(row):
            offsets.append(offsets[-1] + (self.widths[a] + self.widths[b]) / 2 + GAP)
        blocks: list[list[float]] = []  # sum, count
        for want, offset in zip(wanted, offsets, strict=True):
            blocks.append([want - offset, 1])
            while len(blocks) > 1 and (
                blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]
            ):
                total, count = blocks.pop()
                blocks[-1][0] += total
                blocks[-1][1] += count
        means = [total / count for total, count in blocks for _ in range(int(count))]
        for vertex, mean, offset in zip(row, means, offsets, strict=True):
            x[vertex] = mean + offset
