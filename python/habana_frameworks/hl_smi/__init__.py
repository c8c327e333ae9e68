"""hl-smi for the emulated device: what Intel's command of this name says of a card.

It answers the questions that programs for Gaudi ask (`hl-smi`, `-v`, `-L`, `-q`, `-Q`) in the form
that they parse, and says in each form that the device is emulated. What an emulated device does not
have (a temperature, a power draw, counters of errors) is N/A. It imports no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .device import DeviceError, Module, NotEmulated, modules
from .forms import FIELDS, log, query, summary, version

_DISPLAYS = ("PRODUCT", "POWER", "CLOCK", "TEMPERATURE", "FAN", "BUS", "MEMORY", "NET")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hl-smi",
        description="Shows the emulated Gaudi of this host and who uses it. Without options: a "
        "table.",
    )
    parser.add_argument("-v", "--version", action="store_true", help="versions")
    parser.add_argument("-L", "--list-aips", action="store_true", help="lists all modules")
    parser.add_argument("-q", "--query", action="store_true", help="the same as -L")
    parser.add_argument(
        "-d", "--display", metavar="TYPE", type=str.upper, choices=_DISPLAYS, help="one part of -q"
    )
    parser.add_argument("-i", "--device", metavar="BUS_ID", help="only the module on this bus")
    parser.add_argument(
        "-Q",
        "--query-aip",
        "--query-gpu",
        dest="fields",
        metavar="FIELDS",
        help=f"comma-separated fields as CSV; there are: {', '.join(FIELDS)}",
    )
    parser.add_argument(
        "-f", "--format", metavar="FORMAT", help="csv[,noheader][,nounits], for -Q (needed there)"
    )
    return parser


def _format(text: str | None) -> tuple[bool, bool]:
    """Whether the header and the units are shown. Raises ValueError for another format."""
    words = [word.strip() for word in (text or "").split(",")]
    unknown = [word for word in words if word not in ("csv", "noheader", "nounits")]
    if "csv" not in words or unknown:
        given = f"not {text!r}" if text else "and there is none"
        raise ValueError(f"-Q needs -f csv[,noheader][,nounits], {given}")
    return "noheader" not in words, "nounits" not in words


def _selected(bus_id: str | None) -> list[Module]:
    found = modules()
    if bus_id is None:
        return found
    chosen = [module for module in found if module.bus_id == bus_id]
    if not chosen:
        there = ", ".join(module.bus_id for module in found)
        raise ValueError(f"-i {bus_id}: no module is on this bus; there are: {there}")
    return chosen


def _answer(arguments: argparse.Namespace) -> str:
    if arguments.fields is not None:
        header, units = _format(arguments.format)
        fields = [field.strip() for field in arguments.fields.split(",")]
        unknown = [field for field in fields if field not in FIELDS]
        if unknown:
            raise ValueError(
                f"-Q {','.join(unknown)}: no such field; there are: {', '.join(FIELDS)}"
            )
        return query(_selected(arguments.device), fields, header, units)
    if arguments.version:
        return version()
    if arguments.list_aips or arguments.query or arguments.display:
        return log(_selected(arguments.device), arguments.display)
    return summary(_selected(arguments.device))


def _run_next(arguments: list[str]) -> None:
    """Replaces this process by the next hl-smi on PATH, which is Intel's where there is a card."""
    own = Path(sys.argv[0]).resolve()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        other = Path(folder) / "hl-smi"
        if other.resolve() != own and os.access(other, os.X_OK) and not _is_ours(other):
            os.execv(other, [str(other), *arguments])


def _is_ours(command: Path) -> bool:
    """Whether a command is a script that runs this package."""
    with command.open("rb") as file:
        return __name__.encode() in file.read(4096)


def main() -> int:
    arguments = _parser().parse_args()
    try:
        print(_answer(arguments))
    except NotEmulated as error:
        _run_next(sys.argv[1:])
        print(f"hl-smi: {error}, and no other hl-smi is on PATH", file=sys.stderr)
        return 1
    except (DeviceError, ValueError) as error:
        print(f"hl-smi: {error}", file=sys.stderr)
        return 1
    return 0
