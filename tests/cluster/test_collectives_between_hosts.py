"""Ranks on two hosts: two on each exchange data through shared memory, and all over libfabric."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import network
import pytest

pytestmark = pytest.mark.skipif(bool(network.why_none()), reason=network.why_none() or "hosts")

SCRIPT = """
import faulthandler, sys
faulthandler.dump_traceback_later(150, exit=True)
import torch
import torch.distributed as dist
rank, address = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("hccl", init_method=f"tcp://{address}:29511", rank=rank, world_size=4)
for count in (5, 300_001):
    x = torch.arange(float(count), device="hpu") + rank
    dist.all_reduce(x)
    assert torch.equal(x.cpu(), torch.arange(float(count)) * 4 + 6)
    whole = torch.empty(4 * count, device="hpu")
    dist.all_gather_into_tensor(whole, torch.full((count,), float(rank), device="hpu"))
    assert torch.equal(whole.cpu(), torch.arange(4.0).repeat_interleave(count))
print("joined", flush=True)
sys.stdin.readline()  # until the test has cut the hosts apart
try:
    dist.all_reduce(x)
    torch.hpu.synchronize()
except RuntimeError as error:
    print(str(error).splitlines()[0], flush=True)
__import__("os")._exit(0)
"""


def test_ranks_of_two_hosts_and_a_cut_connection():
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(contextlib.closing(network.Network()))
        machines = [hosts.host("one"), hosts.host("two")]
        environment = os.environ | {
            "EMULATOR_HCCL_SILENCE_SECONDS": "3",
            "HCCL_SOCKET_IFNAME": "eth0",
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        ranks = []
        for rank in range(4):
            process = subprocess.Popen(
                machines[rank // 2].command(
                    sys.executable, "-W", "ignore", "-c", SCRIPT, str(rank), machines[0].address
                ),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.kill)
            ranks.append(process)
        for process in ranks:
            assert process.stdout is not None
            assert process.stdout.readline() == "joined\n"
        machines[1].drop()
        for process in ranks:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in ranks:
            assert process.stdout is not None
            assert "has not been heard of for 3 seconds" in process.stdout.readline()


def test_the_example_of_two_hosts():
    example = Path(__file__).parents[2] / "examples/distributed/two_hosts.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(example)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2, step 40: loss" in done.stdout
    assert "the losses of 2 ranks and of one process differ by" in done.stdout
