"""hpu-compile report: runs a Python script and writes a page about what happened."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from .errors import CommandError
from .script import add_script_arguments, check_output, check_script, run_script

_PAGE = "hpu_report.html"


def add_report_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", metavar="FILE", help=f"the page ({_PAGE}; with --json none if not given)"
    )
    add_script_arguments(command)


def report(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Runs a script and writes one page of graphs, breaks, misses, times, kernels and memory."""
    from ..report.collect import collect
    from ..report.page import to_html
    from ..report.recording import record

    check_script(arguments.script)
    page = arguments.output or (None if arguments.json else _PAGE)
    if page is not None:
        check_output(page)
    # With --json, standard output holds nothing but the report.
    output = sys.stderr if arguments.json else sys.stdout
    problem = ""
    with record() as recording, contextlib.redirect_stdout(output):
        try:
            run_script(arguments.script, arguments.arguments)
        except CommandError as error:
            # The user wants to see what happened until the error.
            problem = str(error)
        except KeyboardInterrupt:
            problem = "the script failed: KeyboardInterrupt"
    command = " ".join([os.path.basename(arguments.script), *arguments.arguments])
    document = collect(command, recording)
    if problem:
        document = dataclasses.replace(document, notes=[problem, *document.notes])
    if page is not None:
        Path(page).write_text(to_html(document), encoding="utf-8")
    if arguments.json:
        return document.as_dict() | ({"problem": problem} if problem else {})
    if problem:
        raise CommandError(f"{problem}; the report of what it did is in {page}")
    return f"{document.summary()}\n{page}\n"
