"""The user's compile daemon: where it is, and how a process gets to it."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

from ... import native
from ..settings.option_table import OPTIONS
from ..settings.resolve import resolve

_START_TIMEOUT_S = 20.0
_IDLE_TIMEOUT_S = 900
_INDUCTORS_REDIS = (
    "TORCHINDUCTOR_REDIS_URL",
    "TORCHINDUCTOR_REDIS_HOST",
    "TORCHINDUCTOR_REDIS_PORT",
)

_log = logging.getLogger("habana_frameworks.torch.dynamo")


def running_socket() -> str | None:
    """The socket of the user's daemon if there is one; starts nothing."""
    path = server_paths()["socket"]
    return path if os.path.exists(path) else None


def server_process() -> int | None:
    """The process id of the user's daemon until it begins to stop, whether it listens or not."""
    found = native.client_module().server_process(server_paths()["socket"])
    return None if found is None or found[1] else int(found[0])


def server_paths() -> dict[str, str]:
    """The paths of the socket, log and store of the user's daemon, whether it runs or not."""
    return dict(native.client_module().server_paths(native.cache_dir()))


def remedy(error: Any) -> str:
    """Says what to do about a daemon that is there and does not answer."""
    pid = server_process() if error.code == "DEADLINE_EXCEEDED" else None
    return f"; it is process {pid}: if it hangs, end it with kill -9 {pid}" if pid else ""


def _server_log_level() -> int:
    text = os.environ.get("HPU_SERVER_LOG_LEVEL", "2")
    if text not in ("0", "1", "2", "3", "4", "5", "6"):
        raise ValueError(
            f"HPU_SERVER_LOG_LEVEL={text} is not a number from 0 (trace) to 6 (off); "
            "unset it, or give 2 (info)"
        )
    return int(text)


@functools.cache
def _tell_of_inductors_redis() -> None:
    """Called once in a process."""
    named = [name for name in _INDUCTORS_REDIS if os.environ.get(name)]
    if named:
        _log.warning(
            "Inductor's remote cache would use the Redis of %s; hpu_backend does not: name compile "
            "servers with HPU_COMPILE_SERVER, which can share programs in that Redis "
            "(hpu-compile serve --redis HOST:PORT, docs/cluster.md)",
            " and ".join(named),
        )


@functools.cache
def _warn_of_memory_only() -> None:
    """Called once in a process."""
    _log.warning(
        "new programs are kept in memory only and are lost when the daemon ends: %s says why",
        server_paths()["log"],
    )


def _daemons_own_limit() -> float:
    """Seconds that one compilation may take in the daemon. Other processes use it too, so a
    process that allows its own calls less does not set it; calls have their own deadline."""
    default = next(option.default for option in OPTIONS if option.name == "compile_timeout_s")
    return max(float(default), float(resolve(None)["compile_timeout_s"]))


def open_client() -> tuple[Any, str]:
    """A client of the user's daemon, which is started if needed, and the daemon's build id.

    HPU_COMPILE_SERVER names shared servers (docs/cluster.md), which the daemon asks before it
    compiles; HPU_COMPILE_SERVER_CONFIG is a file of the daemon's options.
    """
    client_module = native.client_module()
    asked = os.environ.get("HPU_COMPILE_SERVER", "")
    if asked:
        asked = client_module.compile_servers(asked)
    socket = client_module.ensure_server(
        server_binary=native.server_binary(),
        cache_dir=native.cache_dir(),
        log_level=_server_log_level(),
        upstream=asked,
        config_file=os.environ.get("HPU_COMPILE_SERVER_CONFIG", ""),
        start_timeout_s=_START_TIMEOUT_S,
        idle_timeout_s=_IDLE_TIMEOUT_S,
        compile_timeout_s=_daemons_own_limit(),
    )
    client = client_module.CompileClient(socket)
    daemon = client.hello()
    if asked and daemon["upstream"] != asked:
        _log.warning(
            "HPU_COMPILE_SERVER names %s; the daemon that runs asks %s. To change that: "
            "hpu-compile stop",
            asked,
            daemon["upstream"],
        )
    if not asked:
        _tell_of_inductors_redis()
    if daemon["memory_only"]:
        _warn_of_memory_only()
    return client, str(daemon["build_id"])
