"""Runs a user's script inside hpu-compile."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from .errors import CommandError


def add_script_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("script", help="Python file, run as the main program")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")


def check_script(script: str) -> None:
    if not os.path.isfile(script):
        raise CommandError(f"there is no file {script}")


def run_script(script: str, arguments: list[str]) -> None:
    """Runs it as `python script arguments` does; an exit code other than 0 is an error here."""
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
