"""The readers of a graph's operators: how many calls of each are in recipes, and how many run
eagerly (utils/debug/dynamo_utils.py)."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch.fx

from ...torch_compat.trees import tree_leaves


@dataclass(frozen=True)
class Operators:
    """Calls by operator, such as "torch.ops.aten.add.Tensor", of a graph or a backward.

    eager_elsewhere: calls that run eagerly and whose results are not on hpu.
    """

    in_recipes: Counter[str] = field(default_factory=Counter)
    eager: Counter[str] = field(default_factory=Counter)
    eager_elsewhere: Counter[str] = field(default_factory=Counter)


# Called with the operators of each part of a graph, and the number of its recipes.
Reader = Callable[[list[Operators], int], None]
_readers: tuple[Reader, ...] = ()

# The logs of graphs and of decisions (capture/listing.py, node_decisions.py) write here; what they
# keep for readers is known to those who hand out the loggers. A process that starts without tracing
# imports neither.
_log = logging.getLogger("habana_frameworks.torch.pt_compile")
_log_readers: list[Callable[[], bool]] = []


def ask_about_log(is_read: Callable[[], bool]) -> None:
    """From now on `is_read` says whether somebody reads a log of graphs."""
    _log_readers.append(is_read)


def are_logs_read() -> bool:
    return _log.isEnabledFor(logging.DEBUG) or any(is_read() for is_read in _log_readers)


@contextlib.contextmanager
def watched(reader: Reader) -> Iterator[None]:
    """Calls `reader` for every graph that is prepared in the block."""
    global _readers
    _readers = (*_readers, reader)
    try:
        yield
    finally:
        _readers = tuple(r for r in _readers if r is not reader)


def is_watched() -> bool:
    return bool(_readers)


def tell(targets: Sequence[Sequence[str]], eager_ops: set[str], recipes: int) -> None:
    """Tells the readers about a program. eager_ops: names of the operators that it runs eagerly,
    without namespace and overload."""
    parts = []
    for calls in targets:
        part = Operators()
        for target in calls:
            eager = target.split(".")[1] in eager_ops
            (part.eager if eager else part.in_recipes)[f"torch.ops.{target}"] += 1
        parts.append(part)
    for reader in _readers:
        reader(parts, recipes)


def tell_eager(module: torch.fx.GraphModule) -> None:
    """Tells the readers about a graph that runs eagerly as a whole, by the names that Dynamo has
    for its calls."""
    part = Operators()
    for node in module.graph.nodes:
        if node.op not in ("call_function", "call_method"):
            continue
        example = node.meta.get("example_value", node.meta.get("val"))
        devices = {v.device.type for v in tree_leaves(example) if isinstance(v, torch.Tensor)}
        name = node._pretty_print_target(node.target)
        (part.eager if "hpu" in devices else part.eager_elsewhere)[name] += 1
    for reader in _readers:
        reader([part], 0)
