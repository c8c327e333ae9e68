"""Graph breaks and recompilations, from the data that Dynamo keeps in every process.

Dynamo keeps all breaks (torch._dynamo.utils.graph_break_reasons) and metrics of the newest 64
compilations; a recording lets it keep more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..dynamo.records.graph_label import plain_function
from ..torch_compat import features
from .cures import for_break, for_recompile
from .document import Frame, GraphBreak, Recompile

_metrics = features.load(features.TRACE_EVENTS, "metrics")

# Dynamo keeps the metrics of this many compilations while something is recorded.
RECORDED_COMPILATIONS = 4096


@dataclass(frozen=True)
class Mark:
    """A point in time: events before it are not reported."""

    breaks: int = 0
    time_s: float = 0.0  # the time, as of time.time()


# Hints to PyTorch's developers, not to its users.
_NO_HINT = ("Please report an issue", "It may be possible to write Dynamo tracing rules")
_GUARD = re.compile(r"\s*\d+/\d+: ")


def break_count() -> int:
    return len(_metrics.graph_break_reasons) if _metrics is not None else 0


@contextmanager
def more_metrics() -> Iterator[None]:
    """Dynamo keeps metrics of more compilations in the block; what it kept stays."""
    if _metrics is None:
        yield
        return
    _metrics.set_compilation_metrics_limit(RECORDED_COMPILATIONS)
    try:
        yield
    finally:
        _metrics.set_compilation_metrics_limit(_metrics.DEFAULT_COMPILATION_METRICS_LIMIT)


def compilations(mark: Mark) -> list[Any]:
    """Dynamo's metrics of what it compiled since the mark, oldest first."""
    if _metrics is None:
        return []
    known = _metrics.get_compilation_metrics()
    return [m for m in known if (m.start_time or 0.0) >= mark.time_s]


def dynamo_ms(metrics: Any) -> float:
    """The time that Dynamo itself took for a compilation, without the backend."""
    whole = metrics.entire_frame_compile_time_s or 0.0
    return max(0.0, whole - (metrics.backend_compile_time_s or 0.0)) * 1e3


def breaks(mark: Mark) -> list[GraphBreak]:
    """The graph breaks since the mark. Equal breaks become one, in the order in which they first
    occurred."""
    found: dict[tuple[str, tuple[Frame, ...]], int] = {}
    reasons = _metrics.graph_break_reasons if _metrics is not None else []
    for reason in reasons[mark.breaks :]:
        stack = tuple(
            Frame(f.filename, f.lineno or 0, plain_function(f.name), f.line or "")
            for f in reason.user_stack
        )
        key = (reason.reason, stack)
        found[key] = found.get(key, 0) + 1
    return [_break(reason, list(stack), count) for (reason, stack), count in found.items()]


def recompiles(metrics: list[Any]) -> list[Recompile]:
    return [
        Recompile(
            plain_function(m.co_name or ""),
            f"{os.path.basename(m.co_filename or '')}:{m.co_firstlineno or 0}",
            m.compile_id or "",
            _guards(m.recompile_reason),
            for_recompile(m.recompile_reason),
            (m.entire_frame_compile_time_s or 0.0) * 1e3,
        )
        for m in metrics
        if m.recompile_reason
    ]


def _guards(text: str) -> list[str]:
    """The guards that failed. Each line begins with the id of an earlier compilation; comments and
    stacks of guards are removed."""
    lines = [line for line in text.splitlines() if _GUARD.match(line)]
    return [line.partition("  # ")[0].strip() for line in lines] or [text.strip()]


def _break(reason: str, stack: list[Frame], count: int) -> GraphBreak:
    """Parses Dynamo's message: a title, then paragraphs that begin with Explanation: or Hint:."""
    title, _, rest = reason.strip().partition("\n")
    rest = rest.partition("Developer debug context:")[0]
    parts = re.split(r"^\s*(Explanation|Hint): ", rest, flags=re.MULTILINE)
    pairs = [(kind, _joined(text)) for kind, text in zip(parts[1::2], parts[2::2], strict=True)]
    explanation = "\n".join(text for kind, text in pairs if kind == "Explanation")
    if not explanation and (told := for_break(title)):
        return GraphBreak(told[0], told[1], [told[2]], stack, count)
    hints = [t for kind, t in pairs if kind == "Hint" and not t.startswith(_NO_HINT)]
    return GraphBreak(title, explanation, hints, stack, count)


def _joined(text: str) -> str:
    return re.sub(r"\n\s*\n+", "\n", "\n".join(line.strip() for line in text.splitlines())).strip()
