"""hpu-compile: looks into the compile service and its store. Every command takes --json."""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import time
from typing import Any

from .. import native
from ..dynamo.option_table import OPTIONS
from ..dynamo.records import difference, nearest
from ..dynamo.service import open_client, running_socket, server_paths
from .errors import CommandError
from .profile_command import add_profile_arguments, profile

# Running compilations are given 10 s (--stop-grace of the server).
_STOP_TIMEOUT_S = 20


class HungDaemonError(CommandError):
    """The daemon is there and does not answer."""

    def __init__(self, pid: int, reason: str) -> None:
        super().__init__(
            f"the daemon (pid {pid}) does not answer: {reason}; its log is "
            f"{server_paths()['log']}; end it with: kill -9 {pid} (stored programs stay, the next "
            "compilation starts a new one)"
        )
        self.pid = pid


def _client() -> Any:
    """A client of the running daemon; starts one if there is none (the store is behind it)."""
    running = _running()
    return open_client()[0] if running is None else running[0]


def _running() -> tuple[Any, dict[str, Any]] | None:
    """The daemon if it runs, and what it says of itself."""
    path = running_socket()
    if path is None:
        return None
    module = native.client_module()
    client = module.CompileClient(path)
    try:
        return client, dict(client.hello())
    except module.CompileError as error:
        pid = _listener(path)
        if pid is None:
            return None
        raise HungDaemonError(pid, str(error)) from error


def _listener(path: str) -> int | None:
    """The process that listens on the socket, whether it answers or not."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return None
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def _find(prefix: str) -> dict[str, Any]:
    """The one stored program whose key starts with `prefix`."""
    found = [m for m in _client().list() if m["key"].startswith(prefix.lower())]
    if not found:
        raise CommandError(f"no stored program has a key that starts with {prefix!r}; see ls")
    if len(found) > 1:
        keys = ", ".join(m["key"][:16] for m in found[:5])
        raise CommandError(f"{prefix!r} is ambiguous: {keys}")
    manifest: dict[str, Any] = found[0]
    return manifest


def status(_: argparse.Namespace) -> dict[str, Any]:
    """Whether the daemon runs, its build, its files, and what is wrong with it if anything is."""
    answer: dict[str, Any] = {"running": False, "cache_dir": native.cache_dir(), **server_paths()}
    try:
        running = _running()
    except HungDaemonError as error:
        return answer | {"running": True, "pid": error.pid, "problem": str(error)}
    if running is None:
        return answer
    counters = dict(running[0].stats())
    answer |= running[1] | {"running": True, "uptime_s": counters["server.uptime_seconds"]}
    if not counters["store.persistent"]:
        answer["problem"] = f"programs are kept in memory only; {answer['log']} says why"
    elif counters.get("rocksdb.write_failures", 0):
        answer["problem"] = (
            f"{counters['rocksdb.write_failures']} writes to {answer['store']} failed, new "
            f"programs may not be kept; is the disk full? {answer['log']} says more"
        )
    return answer


def ls(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Stored programs, newest first."""
    rows = []
    for manifest in _client().list(arguments.limit):
        factors = dict(manifest["factors"])
        size = manifest["program"][1] + sum(recipe[1] for recipe in manifest["recipes"])
        rows.append(
            {
                "key": manifest["key"],
                "created": manifest["created"],
                "recipes": len(manifest["recipes"]),
                "bytes": size,
                "compile_ms": manifest["compile_ms"],
                "device": manifest["device_kind"],
                "isa_level": manifest["isa_level"],
                "nodes": factors.get("nodes", ""),
            }
        )
    return rows


def show(arguments: argparse.Namespace) -> dict[str, Any]:
    """One stored program: its manifest and its listing."""
    manifest = _find(arguments.key)
    loaded = _client().get(bytes.fromhex(manifest["key"]))
    if loaded is None:
        raise CommandError(f"{manifest['key']} left the store just now")
    program = native.torch_module().Program(loaded.program, loaded.recipes)
    return {**manifest, "text": program.text()}


def stats(_: argparse.Namespace) -> dict[str, Any]:
    """Counters of the daemon."""
    return dict(_client().stats())


def explain(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a key is made of, and how the nearest other stored key differs."""
    manifest = _find(arguments.key)
    factors = [(str(n), str(v)) for n, v in manifest["factors"]]
    others = {
        m["key"]: [(str(n), str(v)) for n, v in m["factors"]]
        for m in _client().list()
        if m["key"] != manifest["key"]
    }
    if arguments.other:
        other = _find(arguments.other)["key"]
        found = (other, difference(factors, others.get(other, factors)))
    else:
        found = nearest(factors, others) or ("", [])
    return {
        "key": manifest["key"],
        "factors": dict(factors),
        "nearest": found[0],
        "differences": [vars(d) for d in found[1]],
    }


def stop(_: argparse.Namespace) -> dict[str, Any]:
    """Asks the daemon to finish what it does and end."""
    running = _running()
    if running is None:
        return {"stopped": False, "reason": "no daemon is running"}
    pid = running[1]["pid"]
    running[0].shutdown("hpu-compile stop")
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while (path := running_socket()) is not None and _listener(path) == pid:
        if time.monotonic() > deadline:
            raise CommandError(
                f"the daemon (pid {pid}) was asked to stop and has not ended in "
                f"{_STOP_TIMEOUT_S} s; its log is {server_paths()['log']}; "
                f"end it with: kill -9 {pid}"
            )
        time.sleep(0.05)
    return {"stopped": True, "pid": pid}


def options(_: argparse.Namespace) -> list[dict[str, Any]]:
    """Options of hpu_backend."""
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


_COMMANDS = {f.__name__: f for f in (status, ls, show, stats, explain, stop, options, profile)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hpu-compile", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, function in _COMMANDS.items():
        command = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "ls":
            command.add_argument("--limit", type=int, default=0, help="at most so many")
        if name in ("show", "explain"):
            command.add_argument("key", help="key or the beginning of one")
        if name == "profile":
            add_profile_arguments(command)
        if name == "explain":
            command.add_argument("other", nargs="?", help="key to compare with")
    return parser


def _print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    Console().print(table if rows else f"{title}: nothing")


def _cell(name: str, value: Any) -> str:
    if name == "key":
        return str(value)[:16]
    if name == "created":
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value)


def _print(command: str, answer: Any) -> None:
    if isinstance(answer, str):
        print(answer, end="")
        return
    if isinstance(answer, list):
        _print_rows(command, answer)
        return
    text = answer.pop("text", None)
    pairs: list[dict[str, Any]] = []
    for name, value in answer.items():
        if isinstance(value, dict):
            pairs += [{"name": f"{name}: {k}", "value": v} for k, v in value.items()]
        elif isinstance(value, list):
            pairs += [{"name": name, "value": item} for item in value]
        else:
            pairs.append({"name": name, "value": value})
    _print_rows(command, pairs)
    if text is not None:
        print(text)


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0, or 1 with a message on standard error; 1 as well if status found a problem."""
    arguments = _parser().parse_args(argv)
    try:
        answer = _COMMANDS[arguments.command](arguments)
    # Both of the client's errors are RuntimeErrors; ImportError: the native part is not there.
    except (CommandError, ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"hpu-compile {arguments.command}: {error}", file=sys.stderr)
        return 1
    problem = isinstance(answer, dict) and "problem" in answer
    if arguments.json:
        print(json.dumps(answer, indent=1))
    else:
        _print(arguments.command, answer)
    return 1 if problem else 0
