"""Cycles in a graph of dependencies, each reported with the places that make it."""

import collections
import itertools


def cycles(edges: dict[tuple[str, str], str], what: str) -> list[str]:
    """One line per cycle. `edges` gives a place ("file:line") for each pair of nodes; `what` names
    the kind of the nodes."""
    after: dict[str, list[str]] = collections.defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    found = []
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> None:
        if node in way:
            steps = [*way[way.index(node) :], node]
            places = ", ".join(edges[pair] for pair in itertools.pairwise(steps))
            found.append(f"circle of {what}: {' -> '.join(steps)} ({places})")
            return
        if node in done:
            return
        for target in after[node]:
            walk(target, [*way, node])
        done.add(node)

    for node in sorted(after):
        walk(node, [])
    return found
