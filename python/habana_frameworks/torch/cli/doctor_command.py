"""`hpu-compile doctor`: tests a client's whole way to the last server and says where it ends."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .. import native
from ..dynamo.programs.local_daemon import server_paths
from ..internal.regular_file import read_regular_file
from .daemon import daemon_client, find_daemon, problem_of_settings, problem_of_store
from .errors import CommandError

# A store with less room will soon write nothing.
_LITTLE_ROOM_BYTES = 200 << 20
_SERVER_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Step:
    step: str
    result: str  # "good", "bad", "not tried"
    detail: str
    cure: str = ""


class _Ends(Exception):
    """The steps that follow cannot be tried."""

    def __init__(self, detail: str, cure: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.cure = cure


def doctor(_: argparse.Namespace) -> dict[str, Any]:
    """Tries each step of a program's way to this process, compiles a small graph, and asks every
    server that the daemon asks; says which step fails and what to do."""
    steps = list(_walk())
    bad = [step for step in steps if step.result == "bad"]
    answer: dict[str, Any] = {"steps": [asdict(step) for step in steps]}
    if bad:
        answer["problem"] = f"{bad[0].step}: {bad[0].detail}"
    return answer


def _walk() -> Iterator[Step]:
    checks: list[tuple[str, Callable[[], str]]] = [
        ("native parts", _native_parts),
        ("settings", _settings),
        ("device", _device),
        ("cache folder", _cache_folder),
        ("daemon", _daemon),
        ("store", _store),
        ("compile", _compile),
    ]
    for number, (name, check) in enumerate(checks):
        try:
            yield Step(name, "good", check())
        except _Ends as error:
            yield Step(name, "bad", error.detail, error.cure)
            for left, _ in checks[number + 1 :]:
                yield Step(left, "not tried", "an earlier step failed")
            return
    yield from _servers()


def _native_parts() -> str:
    try:
        native.torch_module()
        native.client_module()
        return f"loaded from {native.FOLDER}; the server is {native.server_binary()}"
    except (ImportError, FileNotFoundError) as error:
        raise _Ends(str(error), "install the wheel, or run ./dev build") from error


def _settings() -> str:
    wrong = problem_of_settings(native.cache_dir())
    if wrong:
        detail, _, cure = wrong.rpartition("; ")
        raise _Ends(detail, cure)
    named = sorted(
        name for name in os.environ if name.startswith(("HPU_", "PT_HPU_", "PT_COMPILE"))
    )
    return ", ".join(f"{name}={os.environ[name]}" for name in named) or "none are set"


def _device() -> str:
    device = native.torch_module()
    try:
        import torch

        value = float((torch.ones(2, device="hpu") + 1).sum().cpu())
    except (RuntimeError, OSError) as error:
        raise _Ends(
            str(error), "unset HPU_SYNAPSE_LIBRARY for the emulated device, or mend the driver"
        ) from error
    if value != 4.0:
        raise _Ends(f"1 + 1 twice is {value}", "the device calculates wrongly: report it")
    return f"{device.device_kind()} {device.isa_level()}".strip()


def _cache_folder() -> str:
    folder = native.cache_dir()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        free = shutil.disk_usage(folder).free
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise _Ends(str(error), "set HPU_CACHE_DIR to a folder of your own") from error
    if not writable:
        raise _Ends(f"{folder} cannot be written", "set HPU_CACHE_DIR to a folder of your own")
    if free < _LITTLE_ROOM_BYTES:
        raise _Ends(f"{folder} has {free >> 20} MiB left", "make room, or set HPU_CACHE_DIR")
    return f"{folder}, {free >> 30} GiB left"


def _daemon() -> str:
    started = time.monotonic()
    try:
        daemon_client()
        found = find_daemon()
    except (CommandError, OSError, RuntimeError, ValueError) as error:
        raise _Ends(str(error), f"look into {server_paths()['log']}") from error
    if found is None:
        raise _Ends("it ended at once", f"look into {server_paths()['log']}")
    spent = (time.monotonic() - started) * 1e3
    return f"process {found[1]['pid']} answers after {spent:.0f} ms"


def _store() -> str:
    paths = server_paths()
    counters = dict(daemon_client().stats())
    wrong = problem_of_store(paths["store"], paths["log"], counters)
    if wrong:
        raise _Ends(wrong, "docs/operations.md, by the words of the log")
    entries = counters.get("rocksdb.entries", 0)
    return f"{entries} programs, {counters.get('rocksdb.bytes', 0) >> 20} MiB in {paths['store']}"


def _compile() -> str:
    import torch

    from ..dynamo import report

    compiled = torch.compile(lambda x: x * 3 + 0.5, backend="hpu_backend", dynamic=False)
    with torch.no_grad():
        value = float(compiled(torch.ones(7, device="hpu")).sum().cpu())
    graph = report().graphs[-1]
    if graph.origin == "eager":
        raise _Ends(f"a small graph ran eagerly: {graph.reason}", f"see {server_paths()['log']}")
    if value != 24.5:
        raise _Ends(f"a small graph gave {value} instead of 24.5", "report it")
    return f"a small graph came from {graph.origin}"


def _servers() -> Iterator[Step]:
    found = find_daemon()
    asked = found[1]["upstream"] if found else ""
    if not asked:
        yield Step("servers", "good", "the daemon asks none (HPU_COMPILE_SERVER is for that)")
        return
    assert found is not None
    access = _access(found[1]["config_file"])
    for address in asked.split(","):
        yield _server(address, access, found[1]["build_id"])
    failures = daemon_client().stats().get("upstream.failures", 0)
    if failures:
        yield Step(
            "answers of servers",
            "bad",
            f"{failures} requests since the daemon started gave nothing that can be used",
            f"search {server_paths()['log']} for 'other servers cannot be used'",
        )


def _access(config_file: str) -> dict[str, str]:
    """The credentials that the daemon shows to servers, by the names of its configuration."""
    if not config_file:
        return {}
    try:
        text = read_regular_file(config_file).decode()
        return {name: str(value) for name, value in tomllib.loads(text).items()}
    except (OSError, ValueError):
        return {}  # the daemon accepted the file, so it has what it needs


def _server(address: str, access: dict[str, str], build_id: str) -> Step:
    name = f"server {address}"
    if not address.startswith("unix:"):
        host, _, port = address.partition("://")[2].rpartition(":")
        try:
            socket.getaddrinfo(host.strip("[]"), int(port))
        except OSError as error:
            return Step(name, "bad", f"{host} has no address: {error}", "mend DNS, or the name")
    try:
        server = native.client_module().ask_server(
            address,
            access.get("upstream-ca", ""),
            access.get("upstream-certificate", ""),
            access.get("upstream-key", ""),
            access.get("upstream-token", ""),
            _SERVER_TIMEOUT_S,
        )
    except native.client_module().CompileError as error:
        return Step(name, "bad", str(error), _CURES.get(error.code, _CURES["UNAVAILABLE"]))
    if server["build_id"] != build_id:
        return Step(
            name,
            "bad",
            f"it has compiler {server['build_id'][:16]}, this host has {build_id[:16]}",
            "install the same build of this package on both",
        )
    if server["memory_only"]:
        return Step(name, "bad", "it keeps programs in memory only", "look into its log")
    return Step(name, "good", f"compiler {server['build_id'][:16]}")


_CURES = {
    "UNAUTHENTICATED": "the token or certificate is not in the server's callers' file: "
    "hpu-compile token makes one",
    "PERMISSION_DENIED": "give this caller the role read in the server's callers' file",
    "UNAVAILABLE": "is the server up, the port open, the certificate of an authority in "
    "upstream-ca and not expired?",
}
