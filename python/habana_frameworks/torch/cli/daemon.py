"""The user's daemon: finding it, and `hpu-compile status`, `stats`, `stop`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from typing import Any

from .. import native
from ..dynamo.programs.local_daemon import open_client, running_socket, server_paths, server_process
from .errors import CommandError

# Running compilations get 10 s to end (--stop-grace of the server).
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
    """The daemon is there and does not listen, because its socket was removed."""


def daemon_client() -> Any:
    """A client of the running daemon; starts one if there is none (the store is behind it)."""
    found = find_daemon()
    return open_client()[0] if found is None else found[0]


def find_daemon() -> tuple[Any, dict[str, Any]] | None:
    """The running daemon, if there is one, and its status."""
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


def status(_: argparse.Namespace) -> dict[str, Any]:
    """Shows whether the daemon runs, its build and its files, and what is wrong, if anything."""
    answer: dict[str, Any] = {"running": False, "cache_dir": native.cache_dir(), **server_paths()}
    wrong = problem_of_settings(answer["cache_dir"])
    if wrong:
        answer["problem"] = wrong
    try:
        found = find_daemon()
    except HungDaemonError as error:
        return answer | {"running": True, "pid": error.pid, "problem": str(error)}
    if found is None:
        return answer
    try:
        counters = dict(found[0].stats())
    except native.client_module().CompileError:
        if server_process() is not None:
            raise
        return answer  # it ended between the two questions
    answer |= found[1] | {"running": True, "uptime_s": counters["server.uptime_seconds"]}
    wrong = problem_of_store(answer["store"], answer["log"], counters)
    if wrong:
        answer["problem"] = wrong
    return answer


def problem_of_settings(cache_dir: str) -> str:
    """A setting that would keep every process here from compiled programs; empty if there is
    none."""
    library = os.environ.get("HPU_SYNAPSE_LIBRARY", "")
    if library and not os.path.isfile(library):
        return (
            f"HPU_SYNAPSE_LIBRARY={library} is no file: nothing can run on hpu; name Intel's "
            "libSynapse.so, or unset it for the emulated device"
        )
    try:
        owner = os.stat(cache_dir).st_uid
    except OSError:
        return ""  # the folder is not made yet
    if owner not in (os.getuid(), 0):
        return (
            f"the cache folder {cache_dir} belongs to user {owner}, who could replace what is in "
            "it; set HPU_CACHE_DIR to a folder of your own"
        )
    return ""


def problem_of_store(store: str, log: str, counters: dict[str, int]) -> str:
    if counters["store.persistent"] and not os.path.exists(f"{store}/db"):
        return (
            f"the store folder {store} was removed while the daemon uses it; the daemon "
            "leaves within a second, the next compilation starts one with an empty store"
        )
    if not counters["store.persistent"]:
        return f"programs are kept in memory only; {log} says why"
    if not counters.get("store.writable", 1):  # an older daemon does not say it
        return f"{store} cannot be written, new programs are kept in memory only; {log} says why"
    if not counters["store.key_kept"]:
        return (
            "programs are signed with a key of this daemon only, the next one compiles them again; "
            f"{log} says what is wrong with {store}/signing.key"
        )
    if counters.get("rocksdb.damaged_at_start", 0):
        return (
            "the store was damaged when this daemon started, and what could not be read was moved "
            f"aside beside {store}/db; {log} says what"
        )
    if counters.get("rocksdb.write_failures", 0):
        return (
            f"{counters['rocksdb.write_failures']} writes to {store} failed, new "
            f"programs may not be kept; is the disk full? {log} says more"
        )
    return ""


def stats(_: argparse.Namespace) -> dict[str, Any]:
    """Shows the daemon's counters."""
    return dict(daemon_client().stats())


def stop(_: argparse.Namespace) -> dict[str, Any]:
    """Asks the daemon to finish its work and end."""
    try:
        found = find_daemon()
    except DeafDaemonError as error:
        pid = error.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    else:
        if found is None:
            return {"stopped": False, "reason": "no daemon is running"}
        pid = found[1]["pid"]
        found[0].shutdown("hpu-compile stop")
    module = native.client_module()
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while (left := module.server_process(server_paths()["socket"])) is not None and left[0] == pid:
        if time.monotonic() > deadline:
            raise CommandError(
                f"the daemon (pid {pid}) was asked to stop and has not ended in "
                f"{_STOP_TIMEOUT_S} s; its log is {server_paths()['log']}; "
                f"end it with: kill -9 {pid}"
            )
        time.sleep(0.05)
    return {"stopped": True, "pid": pid}
