"""What failures get: a right result or a clear error in bounded time, nothing corrupt served.

Every case runs user code in a process of its own against a cache folder of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import stop_daemon

from habana_frameworks.torch import native

PROGRAM = """
import json, sys, time, torch, habana_frameworks.torch
from habana_frameworks.torch.dynamo import report
def function(x, w):
    return torch.softmax(torch.relu(x @ w) + 1, -1)
torch.manual_seed(0)
x, w = torch.randn(4, 6), torch.randn(6, 5)
{before}
started = time.monotonic()
with torch.no_grad():
    got = torch.compile(function, backend="hpu_backend")(x.to("hpu"), w.to("hpu"))
    torch.testing.assert_close(got.cpu(), function(x, w))
seconds = time.monotonic() - started
graph = report().graphs[-1]
{after}
print(json.dumps({{"origin": graph.origin, "reason": graph.reason, "seconds": seconds}}))
"""


# Root without its right to write everywhere.
AS_PLAIN_USER = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)


def command(before: str = "", after: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(before=before, after=after)]


def environment(cache: Path, **extra: str) -> dict[str, str]:
    return {**os.environ, "HPU_CACHE_DIR": str(cache), **extra}


def run(
    cache: Path,
    before: str = "",
    after: str = "",
    prefix: Sequence[str] = (),
    **extra: str,
) -> dict[str, object]:
    """The graph's origin and reason after a run whose result was right.

    prefix: a command that runs the program under other conditions.
    """
    done = subprocess.run(
        [*prefix, *command(before, after)],
        env=environment(cache, **extra),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def hpu_compile(
    cache: Path, *arguments: str, prefix: Sequence[str] = (), **extra: str
) -> dict[str, Any]:
    """What a command of the tool answers."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "habana_frameworks.torch.cli", *arguments, "--json"],
        env=environment(cache, **extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr[-3000:]  # exit code 1 may just say that there is a problem
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def daemon_pid(cache: Path) -> int:
    return int(hpu_compile(cache, "status")["pid"])


def log_of(status: dict[str, Any]) -> str:
    return Path(status["log"]).read_text()


def test_cold_then_warm(private_cache):
    assert run(private_cache)["origin"] == "compiled"
    assert run(private_cache)["origin"] == "store"


def test_killed_server_is_replaced_and_nothing_is_lost(private_cache):
    run(private_cache)
    os.kill(daemon_pid(private_cache), signal.SIGKILL)
    assert run(private_cache)["origin"] == "store"


def test_server_killed_between_capture_and_compile(private_cache):
    """The connection is there when the compilation is asked for; the server is not."""
    before = """
import os, signal
from habana_frameworks.torch.dynamo import hook, service
capture = hook._capture
def kill_then_capture(*arguments):
    os.kill(service.service.connect().hello()["pid"], signal.SIGKILL)
    return capture(*arguments)
hook._capture = kill_then_capture
"""
    assert run(private_cache, before)["origin"] == "compiled"


def test_removed_socket(private_cache):
    run(private_cache)
    pid = daemon_pid(private_cache)
    for socket in private_cache.rglob("*.sock"):
        socket.unlink()
    assert run(private_cache)["origin"] in ("store", "compiled", "eager")
    os.kill(pid, signal.SIGTERM)


def test_no_server_binary_means_eager(private_cache):
    answer = run(private_cache, HPU_COMPILE_SERVER="/nowhere/server")
    assert answer["origin"] == "eager"
    assert "/nowhere/server" in str(answer["reason"])


def test_server_that_never_answers_costs_a_bounded_time(private_cache, tmp_path):
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\nsleep 300\n")
    script.chmod(0o755)
    answer = run(private_cache, HPU_COMPILE_SERVER=str(script))
    assert answer["origin"] == "eager"
    assert float(str(answer["seconds"])) < 60


OTHER_GRAPH = "x = x[:2]"  # another shape, so another program


def test_unwritable_cache_folder(private_cache):
    """What is stored is served; what is new lives as long as the daemon, in a substitute folder."""
    run(private_cache)
    assert hpu_compile(private_cache, "stop")["stopped"]
    files = {path: path.stat().st_mode for path in [private_cache, *private_cache.rglob("*")]}
    for path, mode in files.items():
        path.chmod(mode & ~0o222)
    try:
        assert run(private_cache, prefix=AS_PLAIN_USER)["origin"] == "store"
        assert run(private_cache, OTHER_GRAPH, prefix=AS_PLAIN_USER)["origin"] == "compiled"
        status = hpu_compile(private_cache, "status", prefix=AS_PLAIN_USER)
        assert not status["socket"].startswith(str(private_cache))
        assert "store cannot be written, serving what it has" in log_of(status)
        assert hpu_compile(private_cache, "stop", prefix=AS_PLAIN_USER)["stopped"]
        assert set(files) == {private_cache, *private_cache.rglob("*")}
        shutil.rmtree(Path(status["socket"]).parent)
    finally:
        for path, mode in files.items():
            path.chmod(mode)


def unusable(kind: str, folder: Path) -> Path:
    """A cache folder that cannot be one."""
    if kind == "a file":
        (folder / "file").write_text("")
        return folder / "file"
    if kind == "too long for a socket":
        return folder / ("long" * 30)
    folder.chmod(0o500)
    return folder / "missing" if kind == "cannot be made" else folder


@pytest.mark.parametrize(
    ("kind", "runtime_folder"),
    [
        ("a file", True),
        ("too long for a socket", False),
        ("cannot be made", False),
        ("unwritable", True),
    ],
)
def test_substitute_for_the_cache_folder(tmp_path, kind, runtime_folder):
    """The daemon is found, asked and stopped where it really is."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    folder = tmp_path / "cache"
    folder.mkdir()
    cache = unusable(kind, folder)
    how: dict[str, Any] = {
        "prefix": AS_PLAIN_USER,
        "XDG_RUNTIME_DIR": str(runtime) if runtime_folder else "/nowhere",
    }
    try:
        assert not hpu_compile(cache, "status", **how)["running"]
        assert run(cache, **how)["origin"] == "compiled"
        status = hpu_compile(cache, "status", **how)
        assert status["running"]
        parent = str(runtime) if runtime_folder else "/tmp"
        assert status["socket"].startswith(f"{parent}/hpu-")
        assert run(cache, **how)["origin"] == "store"
        if kind != "too long for a socket":  # there the store itself can be used
            assert "programs are kept in memory only" in log_of(status)
            assert "programs are kept in memory only" in status["problem"]
        stopped = hpu_compile(cache, "stop", **how)
        assert stopped == {"stopped": True, "pid": status["pid"]}
        assert not hpu_compile(cache, "status", **how)["running"]
        shutil.rmtree(Path(status["socket"]).parent)
    finally:
        folder.chmod(0o700)


# Appends 60 MiB that no reader knows (field 2047 of the graph message) to the captured graph.
LARGE_GRAPH = """
from habana_frameworks.torch.dynamo import hook
capture = hook._capture
padding = bytes([0xFA, 0x7F, 0x80, 0x80, 0x80, 0x1E]) + bytes(60 << 20)
hook._capture = lambda *arguments: capture(*arguments) + padding
"""


def test_compilation_over_the_worker_memory(private_cache):
    """It costs that one request: the graph runs eagerly, the same server compiles the next one."""
    start = [native.server_binary(), "--daemon", "--cache-dir", private_cache]
    subprocess.run([*start, "--worker-memory", "300MB"], check=True, timeout=60)
    pid = daemon_pid(private_cache)
    answer = run(private_cache, LARGE_GRAPH)
    assert answer["origin"] == "eager"
    assert answer["reason"] == (
        "the compilation needs more memory than a compile worker may take: "
        "300 MiB of address space (--worker-memory of the server)"
    )
    assert run(private_cache)["origin"] == "compiled"
    assert daemon_pid(private_cache) == pid
    assert hpu_compile(private_cache, "stats")["compile.worker_losses"] == 1


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A disk of its own for the folder; its daemon is stopped at the end."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        stop_daemon(folder)
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """A file that takes what is left of the disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


@needs_root
def test_disk_that_becomes_full(private_cache):
    """What is stored is served; what is new is kept once there is room again."""
    with small_disk(private_cache, "64m"):
        assert run(private_cache)["origin"] == "compiled"
        assert hpu_compile(private_cache, "stop")["stopped"]
        filler = fill(private_cache)
        assert run(private_cache)["origin"] == "store"
        assert run(private_cache, OTHER_GRAPH)["origin"] == "compiled"
        assert hpu_compile(private_cache, "stop")["stopped"]
        filler.unlink()
        assert run(private_cache)["origin"] == "store"
        assert run(private_cache, OTHER_GRAPH)["origin"] == "compiled"
        assert hpu_compile(private_cache, "stop")["stopped"]
        assert run(private_cache, OTHER_GRAPH)["origin"] == "store"


@needs_root
def test_disk_that_is_full_from_the_beginning(private_cache):
    with small_disk(private_cache, "64k"):
        fill(private_cache)
        answer = run(private_cache)
        assert answer["origin"] in ("compiled", "eager")
        assert answer["origin"] == "compiled" or "No space left" in str(answer["reason"])


def test_limit_of_file_sizes(private_cache):
    """A write past the limit is an error, not the end of the server (RocksDB passes it)."""
    limited = ["bash", "-c", 'ulimit -f 4; exec "$@"', "bash"]
    assert run(private_cache, prefix=limited)["origin"] == "compiled"
    assert run(private_cache, prefix=limited)["origin"] == "store"
    assert hpu_compile(private_cache, "stop")["stopped"]
    assert run(private_cache)["origin"] in ("compiled", "store")


def test_damaged_store_is_never_served(private_cache):
    run(private_cache)
    subprocess.run(
        [sys.executable, "-m", "habana_frameworks.torch.cli", "stop"],
        env=environment(private_cache),
        capture_output=True,
        timeout=60,
        check=True,
    )
    damaged = 0
    for path in private_cache.rglob("*"):
        if path.suffix in (".sst", ".blob", ".log") and path.stat().st_size > 200:
            data = bytearray(path.read_bytes())
            for position in range(100, len(data), 97):
                data[position] ^= 0x40
            path.write_bytes(bytes(data))
            damaged += 1
    assert damaged
    assert run(private_cache)["origin"] in ("compiled", "eager")


def test_two_clients_at_once_compile_once(private_cache):
    processes = [
        subprocess.Popen(
            command(), env=environment(private_cache), stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    origins = [
        json.loads(p.communicate(timeout=240)[0].strip().splitlines()[-1])["origin"]
        for p in processes
    ]
    assert origins.count("compiled") == 1
    assert set(origins) <= {"compiled", "coalesced", "store"}


def test_fork_after_use(private_cache):
    """DataLoader workers: a forked child never hangs, and may compute on the CPU."""
    after = """
from torch.utils.data import DataLoader
batches = list(DataLoader(torch.arange(8.0), batch_size=4, num_workers=2))
assert [b.tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
import os
child = os.fork()
if child == 0:
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(lambda x: x + 1, backend="hpu_backend")(torch.ones(3))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run(private_cache, after=after)["origin"] == "compiled"


def test_interrupt_while_compiling(private_cache):
    """Ctrl-C ends the wait at once; the server lives on."""
    before = """
from habana_frameworks.torch.dynamo import hook
class Announcing(hook.CompileProgress):
    def __enter__(self):
        print("compiling", flush=True)
        time.sleep(0.2)
        return self
hook.CompileProgress = Announcing
"""
    process = subprocess.Popen(
        command(before),
        env=environment(private_cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "compiling"
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - started < 30
    assert "KeyboardInterrupt" in errors
    assert run(private_cache)["origin"] in ("compiled", "store")


def test_the_server_starts_while_the_first_graph_is_traced(private_cache: Path) -> None:
    program = """
import json, subprocess, sys, time, torch
torch.compile(lambda x: x + 1, backend="hpu_backend")  # named, not called
from habana_frameworks.torch.dynamo.service import running_socket
end = time.monotonic() + 60
while running_socket() is None and time.monotonic() < end:
    time.sleep(0.02)
print(running_socket() is not None)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(private_cache),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "True", done.stderr[-2000:]
    assert daemon_pid(private_cache) > 0
