"""hpu-compile profile: runs a Python script and says where the device's time went."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from .script import add_script_arguments, check_output, check_script, run_script
from .values import parse_count


def add_profile_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--trace", metavar="FILE", help="also write a Chrome trace")
    command.add_argument(
        "--limit", type=parse_count, default=40, help="kernels in the table, 0 = all"
    )
    add_script_arguments(command)


def profile(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Runs a script and prints times by engine, recipe launch and kernel."""
    from ..utils import profiler

    check_script(arguments.script)
    if arguments.trace:
        check_output(arguments.trace)
    # With --json, standard output holds nothing but the report.
    output = sys.stderr if arguments.json else sys.stdout
    with profiler.profile() as result, contextlib.redirect_stdout(output):
        run_script(arguments.script, arguments.arguments)
    if arguments.trace:
        result.export_chrome_trace(arguments.trace)
    report = result.report()
    if arguments.json:
        return report.as_dict()
    return report.table(arguments.limit)
