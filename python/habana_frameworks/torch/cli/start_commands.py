"""Why a process traced: `hpu-compile explain` without a key."""

from __future__ import annotations

import argparse
from typing import Any

from ..dynamo.start import files, journal
from .errors import CommandError


def add_starts_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--process",
        type=int,
        metavar="PID",
        help="without KEY: explain this process, not the newest",
    )


def explain_starts(process: int | None) -> dict[str, Any]:
    """Each frame that one process started or traced, with the reason. For a traced frame also the
    differences to the nearest kept start of the same function. Raises CommandError if there is
    none."""
    try:
        outcomes = journal.stored()
    except files.NoFolder as error:
        raise CommandError(str(error)) from error
    if not outcomes:
        raise CommandError(
            f"no process left word of a start in {files.folder()}: option start_without_tracing "
            "was off, or nothing was compiled"
        )
    chosen = [o for o in outcomes if process is None or o.process == process]
    if not chosen:
        known = ", ".join(str(p) for p in list(dict.fromkeys(o.process for o in outcomes))[-5:])
        raise CommandError(f"process {process} left no word of a start; the newest did: {known}")
    newest = chosen[-1]
    rows = [_row(o, outcomes[:i]) for i, o in enumerate(outcomes) if o.run == newest.run]
    return {"process": newest.process, "starts": rows}


def _row(outcome: journal.Outcome, earlier: list[journal.Outcome]) -> dict[str, Any]:
    differences = journal.nearest(outcome.factors, earlier) if outcome.reason else []
    return {
        "function": outcome.function,
        "created": outcome.time,
        "traced": bool(outcome.reason),
        "reason": outcome.reason,
        "not_kept": outcome.not_kept,
        "load_ms": outcome.load_ms,
        "key": outcome.key,
        "factors": dict(outcome.factors),
        "differences": [vars(d) for d in differences],
    }
