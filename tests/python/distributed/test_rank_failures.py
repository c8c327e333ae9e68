"""When one rank fails, the others get an error that names it, and never hang."""

from __future__ import annotations

import signal

from ranks import expect_success, run_ranks

KILLED = """
import os, signal
rank, size = start()
x = torch.ones(1 << 20, device="hpu")
dist.all_reduce(x)
equal(x, torch.full((1 << 20,), float(size)))
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        dist.all_reduce(x)
        torch.hpu.synchronize()
except RuntimeError as error:
    print(str(error).splitlines()[0])
# The device is usable, and a new group of those that are left works.
dist.destroy_process_group()
equal(torch.ones(2, device="hpu") + 1, torch.full((2,), 2.0))
left = [0, 2]
os.environ.update(RANK=str(left.index(rank)), WORLD_SIZE="2")
os.environ["MEETING_FILE"] += ".again"
start()
x = torch.ones(2, device="hpu")
dist.all_reduce(x)
equal(x, torch.full((2,), 2.0))
"""


def test_a_killed_rank_is_named_and_the_others_start_again():
    results = run_ranks(3, KILLED)
    assert results[1].returncode == -signal.SIGKILL
    for rank in (0, 2):
        assert results[rank].returncode == 0, results[rank].stderr[-3000:]
        assert "rank 1 has closed its connection: its process has ended" in results[rank].stdout


def test_ranks_that_disagree_about_sizes():
    outputs = expect_success(
        2,
        """
rank, size = start()
try:
    dist.all_reduce(torch.ones(4 + rank, device="hpu"))
    torch.hpu.synchronize()
except RuntimeError as error:
    print(str(error).splitlines()[0])
""",
    )
    for text in outputs:
        assert "all_reduce of 4 float32 (sum)" in text
        assert "all_reduce of 5 float32 (sum)" in text


WAITING = """
import os
from datetime import timedelta
rank, size = start({options})
x = torch.ones(2, device="hpu")
dist.all_reduce(x)
torch.hpu.synchronize()
gave_up = dist.FileStore(os.environ["MEETING_FILE"] + ".end", 2)
if rank == 1:
    gave_up.wait(["yes"], timedelta(seconds=100))
try:
    {call}
    torch.hpu.synchronize()
except RuntimeError as error:
    print(str(error).splitlines()[0])
if rank == 0:
    gave_up.set("yes", "yes")
    gave_up.num_keys()
"""


def test_the_timeout_of_a_group():
    """The other rank hears of it, too."""
    script = WAITING.format(options="timeout=timedelta(seconds=2)", call="dist.all_reduce(x)")
    results = run_ranks(2, script)
    assert [result.returncode for result in results] == [0, 0], results
    assert (
        "all_reduce of rank 0 did not end within the process group's timeout of 2000 ms"
        in results[0].stderr
    )
    for result in results:
        assert (
            "rank 0 has aborted the communicator: all_reduce of rank 0 did not end within"
            in result.stdout
        )


def test_a_wait_with_a_timeout():
    wait = "dist.all_reduce(x, async_op=True).wait(timedelta(seconds=1))"
    outputs = expect_success(2, WAITING.format(options="", call=wait))
    assert "all_reduce: it did not end within 1000 ms" in outputs[0]
    assert "rank 0 has aborted the communicator" in outputs[1]


def test_an_error_of_a_barrier_is_not_raised_again():
    outputs = expect_success(
        2,
        """
import os
from datetime import timedelta
rank, size = start(timeout=timedelta(seconds=2))
dist.all_reduce(torch.ones(2, device="hpu"))
torch.hpu.synchronize()
gave_up = dist.FileStore(os.environ["MEETING_FILE"] + ".end", 2)
if rank == 1:
    gave_up.wait(["yes"], timedelta(seconds=100))
else:
    try:
        dist.barrier()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    gave_up.set("yes", "yes")
dist.destroy_process_group()
equal(torch.ones(2, device="hpu") + 1, torch.full((2,), 2.0))
""",
    )
    assert "barrier" in outputs[0]
    assert "did not end within the process group's timeout of 2000 ms" in outputs[0]


def test_a_rank_that_never_comes_is_waited_for_as_long_as_the_group_says():
    script = """
import os
from datetime import timedelta
rank, size = start()
dist.all_reduce(torch.ones(1, device="hpu"))
group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
gave_up = dist.FileStore(os.environ["MEETING_FILE"] + ".end", 2)
if rank == MISSING:
    gave_up.wait(["yes"], timedelta(seconds=100))
else:
    try:
        dist.all_reduce(torch.ones(1, device="hpu"), group=group)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    gave_up.set("yes", "yes")
"""
    late = expect_success(2, script.replace("MISSING", "0"))
    assert "rank 1: rank 0 did not come to the first call of this process group" in late[1]
    late = expect_success(2, script.replace("MISSING", "1"))
    assert "rank 0 at the first call of its process group: these ranks did not join" in late[0]


def test_a_forked_child_ends():
    expect_success(
        2,
        """
import os
faulthandler.cancel_dump_traceback_later()  # a child would wait for its thread
rank, size = start()
dist.all_reduce(torch.ones(3, device="hpu"))
torch.hpu.synchronize()
for ends in (lambda: None, dist.destroy_process_group):
    child = os.fork()
    if child == 0:
        ends()
        raise SystemExit(0)
    assert os.waitpid(child, 0)[1] == 0
dist.all_reduce(torch.ones(3, device="hpu"))
torch.hpu.synchronize()
""",
    )
