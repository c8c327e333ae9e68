"""What failures get: a right result or a clear error in bounded time, nothing corrupt served.

Every case runs user code in a process of its own against a cache folder of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def command(before: str = "", after: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(before=before, after=after)]


def environment(cache: Path, **extra: str) -> dict[str, str]:
    return {**os.environ, "HPU_CACHE_DIR": str(cache), **extra}


def run(cache: Path, before: str = "", after: str = "", **extra: str) -> dict[str, object]:
    """The graph's origin and reason after a run whose result was right."""
    done = subprocess.run(
        command(before, after),
        env=environment(cache, **extra),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def daemon_pid(cache: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "habana_frameworks.torch.cli", "status", "--json"],
        env=environment(cache),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return int(json.loads(done.stdout)["pid"])


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


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_unwritable_cache_folder(private_cache):
    private_cache.chmod(0o500)
    try:
        assert run(private_cache)["origin"] in ("compiled", "eager")
    finally:
        private_cache.chmod(0o700)


def test_cache_folder_that_is_a_file(private_cache, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert run(file)["origin"] in ("compiled", "store", "eager")


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
