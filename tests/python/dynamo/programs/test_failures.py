"""Failures end in a right result or a clear error in bounded time, and nothing corrupt is served.

Every case runs user code in a process of its own against a cache folder of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from eventually import HANG_LIMIT_S
from failing_process import command, daemon_pid, environment, hpu_compile, run
from paths import TESTS
from processes import output_of, suspend

from habana_frameworks.torch import native


def test_cold_then_warm(private_cache):
    assert run(private_cache)["origin"] == "compiled"
    assert run(private_cache)["origin"] == "store"


def test_killed_server_is_replaced_and_nothing_is_lost(private_cache):
    run(private_cache)
    os.kill(daemon_pid(private_cache), signal.SIGKILL)
    assert run(private_cache)["origin"] == "store"


def test_server_killed_between_capture_and_compile(private_cache):
    """The connection exists when the compilation is requested, but the server does not."""
    before = """
import os, signal
from habana_frameworks.torch.dynamo.programs import lookup, service
capture = lookup.capture
def kill_then_capture(*arguments):
    os.kill(service.service.connect().hello()["pid"], signal.SIGKILL)
    return capture(*arguments)
lookup.capture = kill_then_capture
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
    answer = run(private_cache, HPU_COMPILE_SERVER_BINARY="/nowhere/server")
    assert answer["origin"] == "eager"
    assert "/nowhere/server" in str(answer["reason"])


def test_server_that_never_answers_costs_a_bounded_time(private_cache, tmp_path):
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\nexec sleep 300\n")
    script.chmod(0o755)
    answer = run(private_cache, HPU_COMPILE_SERVER_BINARY=str(script))
    assert answer["origin"] == "eager"
    assert float(str(answer["seconds"])) < HANG_LIMIT_S


# Appends 60 MiB that no reader knows (field 2047 of the graph message) to the captured graph.
LARGE_GRAPH = """
import torch
from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo.programs import lookup

def capture(*arguments):
    builder = native.torch_module().GraphBuilder("large")
    constant = builder.add_constant(torch.zeros(60 << 20, dtype=torch.uint8))
    builder.set_outputs([builder.Value(constant)])
    return builder.serialize()

lookup.capture = capture
"""


def test_compilation_over_the_worker_memory(private_cache):
    """It costs only that request: the graph runs eagerly, and the same server compiles the next
    one."""
    server = [native.server_binary(), "--daemon", "--cache-dir", private_cache]
    server += ["--worker-memory", "300MB"]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as first:
        # This process ends at once, and its child says later that it takes requests.
        assert first.stdout.readline() == "ready\n"
    pid = daemon_pid(private_cache)
    answer = run(private_cache, LARGE_GRAPH)
    assert answer["origin"] == "eager"
    assert answer["reason"] == (
        "the compilation needs more memory than a compile worker may take: "
        "300 MiB of address space (--worker-memory of the server)"
    )
    small = run(private_cache)
    assert small["origin"] == "compiled", small
    assert daemon_pid(private_cache) == pid
    assert hpu_compile(private_cache, "stats")["compile.worker_losses"] == 1


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


def test_a_forked_child_is_told_and_computes_on_the_cpu(private_cache):
    """Neither the device nor the connection exists in the child; nothing hangs, nothing is
    served."""
    after = """
import os, signal
x_hpu, known = x.to("hpu"), torch.compile(lambda x: x * 2 + 1, backend="hpu_backend")
with torch.no_grad():
    known(x_hpu)
child = os.fork()
if child == 0:
    signal.alarm(60)
    ended = 0
    for use in (lambda: known(x_hpu), lambda: torch.ones(2, device="hpu")):
        try:
            use()
        except RuntimeError as error:
            ended += "cannot be used after fork" in str(error)
    torch._dynamo.reset()
    from habana_frameworks.torch.dynamo.programs import lookup
    lookup.DEVICE = "cpu"  # past the check of devices
    got = torch.compile(lambda x: x + 1, backend="hpu_backend")(x)
    reason = report().graphs[-1].reason
    ended += torch.equal(got, x + 1) and "forked after the backend was used" in reason
    os._exit(ended)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    assert run(private_cache, after=after)["origin"] == "compiled"


IMPORTED = """
import os, signal
import torch, habana_frameworks.torch
{more}
child = os.fork()
if child == 0:
    signal.alarm(100)
    x = torch.arange(3.0, device="hpu")
    got = torch.compile(lambda x: x * 2 + 1, backend="hpu_backend")(x).tolist()
    from habana_frameworks.torch.dynamo import report
    print(got, report().graphs[-1].origin, report().graphs[-1].reason, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "import torch._dynamo, habana_frameworks.torch.dynamo.programs.service",
        "import torch._inductor.compile_fx",
    ],
)
def test_a_child_of_a_process_that_only_imported_compiles(private_cache, more):
    told = output_of(IMPORTED.format(more=more), HPU_CACHE_DIR=str(private_cache)).stdout
    assert told.strip() in ("[1.0, 3.0, 5.0] compiled", "[1.0, 3.0, 5.0] store")


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
from habana_frameworks.torch.dynamo.programs import lookup
class Announcing(lookup.CompileProgress):
    def __call__(self, *progress):
        print("compiling", flush=True)
        sys.stdin.readline()
        print("waiting", flush=True)
lookup.CompileProgress = Announcing
"""
    process = subprocess.Popen(
        command(before),
        env=environment(private_cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline().strip() == "compiling"
    server = daemon_pid(private_cache)
    suspend(server)  # so that no answer comes before the signal
    try:
        print(file=process.stdin, flush=True)
        assert process.stdout.readline().strip() == "waiting"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG_LIMIT_S)
    finally:
        os.kill(server, signal.SIGCONT)
    assert "KeyboardInterrupt" in errors
    assert run(private_cache)["origin"] in ("compiled", "store")


def test_the_server_starts_while_the_first_graph_is_traced(private_cache: Path) -> None:
    program = """
import torch
from eventually import wait_until
torch.compile(lambda x: x + 1, backend="hpu_backend")  # named, not called
from habana_frameworks.torch.dynamo.programs.local_daemon import running_socket
wait_until(lambda: running_socket() is not None)
print("it runs")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(private_cache, PYTHONPATH=str(TESTS)),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "it runs", done.stderr[-2000:]
    assert daemon_pid(private_cache) > 0
