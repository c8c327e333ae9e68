"""A manifest of the graphs that a real run used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from ..dynamo.records import records
from .manifest import VERSION

_HEAD = """\
# Written by `record` ({what}). Each graph is known by its front-end key, which holds for the same
# code, compiler, device and options. `hpu-compile replay` proves that a store has all of them.
"""


@contextlib.contextmanager
def record(path: str | Path, what: str = "warmup.record") -> Iterator[None]:
    """Writes a manifest of every graph that this process compiles, or gets from a store, in the
    block.

    The manifest is written after an exception too. Graphs that run eagerly have no program and are
    named in comments. Raises OSError if the file cannot be written.
    """
    start = records.position()
    try:
        yield
    finally:
        Path(path).write_text(to_manifest(records.since(start).graphs, what))


def _one_line(text: str) -> str:
    """The text on one line, for a comment: YAML has more line ends than Python's newline."""
    return " ".join(text.split())


def to_manifest(graphs: list[records.GraphRecord], what: str) -> str:
    """The manifest's text. `what`: says for people where the graphs come from."""
    rows: dict[str, str] = {}
    missing = []
    for graph in graphs:
        label = f"{graph.name} {graph.source}".strip()
        if graph.front_end_key and graph.origin != "eager":
            rows.setdefault(graph.front_end_key, label)
        else:
            missing.append(f"# not in it: {_one_line(f'{label}: {graph.reason}')}")
    document = {
        "version": VERSION,
        "recorded": [{"graph": label, "key": key} for key, label in rows.items()],
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join([_HEAD.format(what=_one_line(what)) + text.rstrip(), *missing, ""])
