"""hpu-compile: looks into the compile service and its store; all but `serve` take --json."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from .. import native
from ..dynamo.option_table import OPTIONS
from ..dynamo.records import difference, nearest
from ..dynamo.service import open_client, running_socket, server_paths, server_process
from .errors import CommandError
from .profile_command import add_profile_arguments, profile
from .report_command import add_report_arguments, report
from .server_commands import add_token_arguments, serve, token
from .tables import print_answer

Factors = list[tuple[str, str]]

# Running compilations are given 10 s (--stop-grace of the server).
_STOP_TIMEOUT_S = 20
# A daemon whose socket was removed listens again within a second.
_LISTEN_TIMEOUT_S = 2


class HungDaemonError(CommandError):
    """The daemon is there and does not answer."""

    def __init__(self, pid: int, reason: str) -> None:
        super().__init__(
            f"the daemon (pid {pid}) does not answer: {reason}; its log is "
            f"{server_paths()['log']}; end it with: kill -9 {pid} (stored programs stay, the next "
            "compilation starts a new one)"
        )
        self.pid = pid


class DeafDaemonError(HungDaemonError):
    """The daemon is there and does not listen: its socket was removed."""


def _client() -> Any:
    """A client of the running daemon; starts one if there is none (the store is behind it)."""
    running = _running()
    return open_client()[0] if running is None else running[0]


def _running() -> tuple[Any, dict[str, Any]] | None:
    """The daemon if it runs, and what it says of itself."""
    module = native.client_module()
    deadline = time.monotonic() + _LISTEN_TIMEOUT_S
    while True:
        path = running_socket()
        reason = f"nothing listens at {server_paths()['socket']}"
        if path is not None:
            client = module.CompileClient(path)
            try:
                return client, dict(client.hello())
            except module.CompileError as error:
                reason = str(error)
                hangs = error.code != "UNAVAILABLE"
        pid = server_process()
        if pid is None:
            return None
        if path is not None and hangs:
            raise HungDaemonError(pid, reason)
        if time.monotonic() > deadline:
            raise DeafDaemonError(pid, reason)
        time.sleep(0.05)


@dataclass(frozen=True)
class _Found:
    """A stored program, and the alias by whose front-end key it was found."""

    manifest: dict[str, Any]
    alias: dict[str, Any] | None

    @property
    def key(self) -> str:
        return str(self.alias["front_end_key"] if self.alias else self.manifest["key"])

    @property
    def factors(self) -> Factors:
        return _factors(self.alias or self.manifest)


def _factors(described: dict[str, Any]) -> Factors:
    return [(str(name), str(value)) for name, value in described["factors"]]


def _everything(programs: list[dict[str, Any]]) -> list[_Found]:
    """All keys of both kinds."""
    found = [_Found(m, None) for m in programs]
    return found + [_Found(m, alias) for m in programs for alias in m["aliases"]]


def _find(prefix: str, everything: list[_Found]) -> _Found:
    """The one stored program with a key, of either kind, that starts with `prefix`."""
    found = [f for f in everything if f.key.startswith(prefix.lower())]
    if not found:
        raise CommandError(
            f"no stored program has a key that starts with {prefix!r}; see ls. What a key is made "
            "of is stored with its program: of a graph that has none, ask the process that missed "
            "it (habana_frameworks.torch.dynamo.explain())"
        )
    if len(found) > 1:
        keys = ", ".join(f.key[:16] for f in found[:5])
        raise CommandError(f"{prefix!r} is ambiguous: {keys}")
    return found[0]


def _label(manifest: dict[str, Any]) -> str:
    """What the newest of its aliases calls it."""
    return str(manifest["aliases"][-1]["label"]) if manifest["aliases"] else ""


def status(_: argparse.Namespace) -> dict[str, Any]:
    """Whether the daemon runs, its build, its files, and what is wrong with it if anything is."""
    answer: dict[str, Any] = {"running": False, "cache_dir": native.cache_dir(), **server_paths()}
    try:
        running = _running()
    except HungDaemonError as error:
        return answer | {"running": True, "pid": error.pid, "problem": str(error)}
    if running is None:
        return answer
    try:
        counters = dict(running[0].stats())
    except native.client_module().CompileError:
        if server_process() is not None:
            raise
        return answer  # it left between the two questions
    answer |= running[1] | {"running": True, "uptime_s": counters["server.uptime_seconds"]}
    if counters["store.persistent"] and not os.path.exists(f"{answer['store']}/db"):
        answer["problem"] = (
            f"the store folder {answer['store']} was removed while the daemon uses it; the daemon "
            "leaves within a second, the next compilation starts one with an empty store"
        )
    elif not counters["store.persistent"]:
        answer["problem"] = f"programs are kept in memory only; {answer['log']} says why"
    elif not counters["store.key_kept"]:
        answer["problem"] = (
            "programs are signed with a key of this daemon only, the next one compiles them again; "
            f"{answer['log']} says what is wrong with {answer['store']}/signing.key"
        )
    elif counters.get("rocksdb.damaged_at_start", 0):
        answer["problem"] = (
            "the store was damaged when this daemon started, and what could not be read was moved "
            f"aside beside {answer['store']}/db; {answer['log']} says what"
        )
    elif counters.get("rocksdb.write_failures", 0):
        answer["problem"] = (
            f"{counters['rocksdb.write_failures']} writes to {answer['store']} failed, new "
            f"programs may not be kept; is the disk full? {answer['log']} says more"
        )
    return answer


def ls(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Stored programs, newest first, with the front-end keys that name them."""
    now = time.time()
    rows = []
    for manifest in _client().list(arguments.limit):
        size = manifest["program"][1] + sum(recipe[1] for recipe in manifest["recipes"])
        rows.append(
            {
                "label": _label(manifest),
                "key": manifest["key"],
                "front_end_keys": [alias["front_end_key"] for alias in manifest["aliases"]],
                "created": manifest["created"],
                "age_s": max(0, int(now - manifest["created"])),
                "recipes": len(manifest["recipes"]),
                "bytes": size,
                "hits": manifest["hits"],
                "compile_ms": manifest["compile_ms"],
                "device": manifest["device_kind"],
                "isa_level": manifest["isa_level"],
            }
        )
    return rows


def show(arguments: argparse.Namespace) -> dict[str, Any]:
    """One stored program, by either of its keys: its manifest and its listing."""
    client = _client()
    manifest = _find(arguments.key, _everything(client.list())).manifest
    loaded = client.get_content(bytes.fromhex(manifest["key"]))
    if loaded is None:
        raise CommandError(f"{manifest['key']} left the store just now")
    program = native.torch_module().Program(loaded.program, loaded.recipes, manifest["key"][:8])
    aliases = {alias["front_end_key"]: alias["label"] for alias in manifest["aliases"]}
    return {**manifest, "aliases": aliases, "text": program.text()}


def stats(_: argparse.Namespace) -> dict[str, Any]:
    """Counters of the daemon."""
    return dict(_client().stats())


def explain(arguments: argparse.Namespace) -> dict[str, Any]:
    """What both keys of a program are made of, and how the nearest key of the same kind differs."""
    everything = _everything(_client().list())
    found = _find(arguments.key, everything)
    others = {
        f.key: f.factors
        for f in everything
        if (f.alias is None) == (found.alias is None) and f.key != found.key
    }
    key, differences = nearest(found.factors, others) or ("", [])
    if arguments.other:
        other = _find(arguments.other, everything)
        if (other.alias is None) != (found.alias is None):
            raise CommandError("one key is a content key, the other a front-end key; see ls")
        key, differences = other.key, difference(found.factors, other.factors)
    alias = found.alias or next(iter(reversed(found.manifest["aliases"])), None)
    return {
        "label": alias["label"] if alias else "",
        "front_end_key": alias["front_end_key"] if alias else "",
        "factors": dict(_factors(alias)) if alias else {},
        "content_key": found.manifest["key"],
        "content_factors": dict(_factors(found.manifest)),
        "nearest": key,
        "differences": [vars(d) for d in differences],
    }


def stop(_: argparse.Namespace) -> dict[str, Any]:
    """Asks the daemon to finish what it does and end."""
    try:
        running = _running()
    except DeafDaemonError as error:
        pid = error.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    else:
        if running is None:
            return {"stopped": False, "reason": "no daemon is running"}
        pid = running[1]["pid"]
        running[0].shutdown("hpu-compile stop")
    module = native.client_module()
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while (found := module.server_process(server_paths()["socket"])) is not None and found[
        0
    ] == pid:
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


_COMMANDS = {
    f.__name__: f for f in (status, ls, show, stats, explain, stop, options, profile, report, token)
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hpu-compile", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("serve", help=serve.__doc__)  # main() knows it before this does
    for name, function in _COMMANDS.items():
        command = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        command.add_argument("--json", action="store_true", help="print JSON")
        if name == "ls":
            command.add_argument("--limit", type=int, default=0, help="at most so many")
        if name in ("show", "explain"):
            command.add_argument("key", help="key of either kind, or the beginning of one")
        if name == "profile":
            add_profile_arguments(command)
        if name == "report":
            add_report_arguments(command)
        if name == "token":
            add_token_arguments(command)
        if name == "explain":
            command.add_argument("other", nargs="?", help="key to compare with")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0, or 1 with a message on standard error; 1 as well if status found a problem."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if words[:1] == ["serve"]:  # all that follows, --help too, is the server's
            serve(words[1:])
    except OSError as error:
        print(f"hpu-compile serve: {error}", file=sys.stderr)
        return 1
    arguments = _parser().parse_args(words)
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
        print_answer(arguments.command, answer)
    return 1 if problem else 0
