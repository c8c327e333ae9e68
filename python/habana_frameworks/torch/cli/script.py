"""Runs a user's script inside hpu-compile."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from pathlib import Path

from .errors import CommandError


def add_script_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("script", help="Python file, run as the main program")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")


def check_script(script: str) -> None:
    if not os.path.isfile(script):
        raise CommandError(f"there is no file {script}")


def check_output(file: str) -> None:
    """Called before a script runs, because it may run for long."""
    folder = Path(file).resolve().parent
    if not os.access(folder, os.W_OK):
        raise CommandError(f"cannot write {file}")


def run_script(script: str, arguments: list[str]) -> None:
    """Runs it as `python script arguments` does. An exit code other than 0, and an exception, whose
    traceback is printed, are errors here."""
    before = sys.argv, sys.path[0]
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise CommandError(f"the script failed: {script} ended with {end.code}") from end
    except Exception as error:
        # The first frames are those of this function and of runpy.
        inner = error.__traceback__
        while inner is not None and inner.tb_frame.f_code.co_filename != script:
            inner = inner.tb_next
        traceback.print_exception(error.with_traceback(inner or error.__traceback__))
        last_line = traceback.format_exception_only(error)[-1].strip()
        raise CommandError(f"the script failed: {last_line}") from None
    finally:
        sys.argv, sys.path[0] = before
