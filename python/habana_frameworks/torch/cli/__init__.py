"""hpu-compile: looks into the compile service and its store; all but `serve` take --json."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..dynamo.settings.option_table import OPTIONS
from .bundle_commands import (
    add_export_arguments,
    add_import_arguments,
    add_sign_arguments,
    export_,
    import_,
    sign,
)
from .daemon import stats, status, stop
from .doctor_command import doctor
from .errors import CommandError
from .key_commands import add_keys_arguments, keys
from .maintenance_commands import add_gc_arguments, add_pin_arguments, gc, pin, unpin, verify
from .profile_command import add_profile_arguments, profile
from .report_command import add_report_arguments, report
from .server_commands import add_token_arguments, serve, token
from .store_commands import (
    add_explain_arguments,
    add_ls_arguments,
    add_show_arguments,
    explain,
    ls,
    show,
)
from .tables import print_answer
from .top_command import add_top_arguments, top
from .warm_commands import (
    add_record_arguments,
    add_replay_arguments,
    add_warm_arguments,
    record,
    replay,
    warm,
)


def options(_: argparse.Namespace) -> list[dict[str, Any]]:
    """Lists the options of hpu_backend."""
    return [
        {
            "option": option.name,
            "environment": option.env,
            "default": option.default,
            "in key": option.key,
            "effect": option.effect,
            "meaning": option.text,
        }
        for option in OPTIONS
    ]


def _no_arguments(_: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True)
class _Command:
    """A command. Its name is the function's name, its help the docstring; tables.py prints its
    answer."""

    run: Callable[[argparse.Namespace], Any]
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments


_COMMANDS = {
    command.run.__name__.rstrip("_"): command
    for command in (
        _Command(status),
        _Command(ls, add_ls_arguments),
        _Command(show, add_show_arguments),
        _Command(stats),
        _Command(explain, add_explain_arguments),
        _Command(pin, add_pin_arguments),
        _Command(unpin, add_pin_arguments),
        _Command(gc, add_gc_arguments),
        _Command(verify),
        _Command(export_, add_export_arguments),
        _Command(import_, add_import_arguments),
        _Command(sign, add_sign_arguments),
        _Command(keys, add_keys_arguments),
        _Command(doctor),
        _Command(top, add_top_arguments),
        _Command(stop),
        _Command(options),
        _Command(profile, add_profile_arguments),
        _Command(report, add_report_arguments),
        _Command(token, add_token_arguments),
        _Command(warm, add_warm_arguments),
        _Command(record, add_record_arguments),
        _Command(replay, add_replay_arguments),
    )
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hpu-compile", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # listed for --help; main() handles it before the parser does
    commands.add_parser("serve", help=serve.__doc__)
    for name, command in _COMMANDS.items():
        text = command.run.__doc__
        arguments = commands.add_parser(name, help=text, description=text)
        arguments.add_argument("--json", action="store_true", help="print JSON")
        command.add_arguments(arguments)
    return parser


def _print_rows(rows: Iterator[Any]) -> None:
    """Prints the rows as json.dumps prints a list, but each row as soon as it is there."""
    separator = "["
    for row in rows:
        print(separator + "\n" + textwrap.indent(json.dumps(row, indent=1), " "), end="")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 with a message on standard error; also 1 if a problem was
    found."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if words[:1] == ["serve"]:  # the server handles everything that follows, including --help
            serve(words[1:])
    except OSError as error:
        print(f"hpu-compile serve: {error}", file=sys.stderr)
        return 1
    arguments = _parser().parse_args(words)
    try:
        answer = _COMMANDS[arguments.command].run(arguments)
        if not arguments.json:
            print_answer(arguments.command, answer)
        elif isinstance(answer, Iterator):
            _print_rows(answer)
        else:
            print(json.dumps(answer, indent=1))
    # Both of the client's errors are RuntimeErrors; an ImportError means that the native part is
    # missing.
    except (CommandError, ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"hpu-compile {arguments.command}: {error}", file=sys.stderr)
        return 1
    problem = isinstance(answer, dict) and "problem" in answer
    return 1 if problem else 0
