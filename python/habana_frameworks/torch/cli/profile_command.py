"""hpu-compile profile: runs a Python script and says where the device's time went."""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys
from typing import Any

from .errors import CommandError


def add_profile_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--trace", metavar="FILE", help="also write a Chrome trace")
    command.add_argument("--limit", type=int, default=40, help="kernels in the table, 0 = all")
    command.add_argument("script", help="Python file, run as the main program")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")


def profile(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Runs a script; times by engine, recipe launch and kernel."""
    from ..utils import profiler

    if not os.path.isfile(arguments.script):
        raise CommandError(f"there is no file {arguments.script}")
    # With --json, standard output is the report's alone.
    output = sys.stderr if arguments.json else sys.stdout
    with profiler.profile() as result, contextlib.redirect_stdout(output):
        _run(arguments.script, arguments.arguments)
    if arguments.trace:
        result.export_chrome_trace(arguments.trace)
    report = result.report()
    if arguments.json:
        return report.as_dict()
    return report.table(arguments.limit)


def _run(script: str, arguments: list[str]) -> None:
    """As `python script arguments` does it; its exit code other than 0 is an error here."""
    before = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise CommandError(f"{script} ended with {end.code}") from end
    finally:
        sys.argv, sys.path[0] = before
