"""Commands that keep a store in order: `hpu-compile pin`, `unpin`, `gc`, `verify`."""

from __future__ import annotations

import argparse
from typing import Any

from .daemon import daemon_client
from .errors import CommandError
from .progress import Progress
from .store_commands import find_manifests
from .values import parse_size, parse_time

# The time for reading a whole store.
_VERIFY_TIMEOUT_S = 24 * 3600.0


def add_pin_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "keys", nargs="+", metavar="key", help="key of either kind, or its beginning"
    )


def pin(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Keeps programs in the store: they are neither evicted nor removed as garbage."""
    return _set_pinned(arguments.keys, True)


def unpin(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Lets programs be evicted again."""
    return _set_pinned(arguments.keys, False)


def _set_pinned(keys: list[str], pinned: bool) -> list[dict[str, Any]]:
    client = daemon_client()
    # All programs are found before the first one is changed.
    manifests = find_manifests(keys, client.list())
    for manifest in manifests:
        client.pin(bytes.fromhex(manifest["key"]), pinned)
    return [{"key": manifest["key"], "pinned": pinned} for manifest in manifests]


def add_gc_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--max-size",
        type=parse_size,
        help="bytes that may stay, e.g. 5GB; the longest unused go first",
    )
    command.add_argument(
        "--unused",
        type=parse_time,
        default=0,
        help="remove programs not used for this time, e.g. 30d",
    )


def gc(arguments: argparse.Namespace) -> dict[str, Any]:
    """Removes programs that nobody needs, but never pinned ones."""
    if arguments.max_size is None and not arguments.unused:
        raise CommandError("say what is to go: --max-size SIZE, --unused TIME, or both")
    limit = (1 << 64) - 1 if arguments.max_size is None else arguments.max_size
    answer = daemon_client().collect_garbage(limit, arguments.unused)
    return {
        "removed": answer["removed"],
        "before_bytes": answer["bytes_before"],
        "after_bytes": answer["bytes_after"],
    }


def verify(_: argparse.Namespace) -> dict[str, Any]:
    """Has the daemon read all stored programs again and check signatures and digests. Damaged
    programs are set aside, and compiled again when they are requested."""
    bad: list[dict[str, str]] = []
    count = 0
    with Progress("verifying") as progress:

        def each(done: int, total: int, key: str, problem: str) -> None:
            nonlocal count
            count = done
            progress(done, total)
            if problem:
                bad.append({"key": key, "problem": problem})

        daemon_client().verify(each, _VERIFY_TIMEOUT_S)
    answer: dict[str, Any] = {"programs": count, "damaged": bad}
    if bad:
        answer["problem"] = f"{len(bad)} of {count} programs were damaged and are set aside"
    return answer
