"""Programs call process groups by their places, so that replicas share programs (DIST-2)."""

from __future__ import annotations

from ranks import expect_success
from test_compiled_collectives import COMPILED
from test_recorded_collectives import LAZY
from test_recorded_collectives import SETUP as RECORDED


def test_programs_know_groups_by_their_place(tmp_path):
    """The second run gives the pair another name on both ranks, and rank 0 joins a group before
    it. So rank 1 finds the stored program without a capture, and rank 0 needs another one.

    The interpreters are fresh, because a fork has imported functional collectives before the
    package, which then cannot describe their kernels in a key."""
    script = f"""{COMPILED}
GROUPS
pair = dist.new_group([0, 1])
function = compiled(lambda x: functional.all_reduce(x + 1, "sum", pair) * 2)
equal(function(x), 2 * (sum(all_x) + size))
graph, = report().graphs
print(pair.group_name, graph.origin == "compiled", graph.capture_ms > 0)
"""
    variables = {"HPU_CACHE_DIR": str(tmp_path)}
    first = expect_success(2, script.replace("GROUPS", ""), variables, fresh=True)
    assert {text.split()[0] for text in first} == {"1"}
    more = script.replace("GROUPS", "dist.new_group([0])")
    second = expect_success(2, more, variables, fresh=True)
    assert [text.strip() for text in second] == ["2 True True", "2 False False"]


PAIRS = """
pairs = [dist.new_group([first, first + 1]) for first in range(0, size, 2)]
pair, both = pairs[rank // 2], [rank // 2 * 2, rank // 2 * 2 + 1]
y = x * 2
dist.all_reduce(y, group=pair)
gathered = torch.empty(16, 3, device="hpu")
dist.all_gather_into_tensor(gathered, x, group=pair)
core.mark_step()
equal(y, 2 * sum(all_x[each] for each in both))
equal(gathered, torch.cat([all_x[each] for each in both]))
"""


def test_replicas_share_the_programs_of_their_recordings(tmp_path) -> None:
    """Their groups have other names in PyTorch, and the same place on each rank."""
    printed = expect_success(
        4,
        f"""{RECORDED}{PAIRS}
print(sum(graph.origin == "compiled" for graph in report().graphs), len(report().graphs))
""",
        LAZY | {"HPU_CACHE_DIR": str(tmp_path)},
    )
    counts = sorted(text.strip() for text in printed)
    assert counts == ["0 1", "0 1", "0 1", "1 1"]


def test_groups_of_recordings_that_run_call_by_call() -> None:
    expect_success(
        4,
        f"""{RECORDED}
from habana_frameworks.torch.lazy import recordings
recordings.compile_recording = lambda *_: recordings.Answer(None, "this test says so")
{PAIRS}
assert counts("runs_by_call") == 1
""",
        LAZY,
    )


def test_a_start_without_tracing_knows_the_ranks_of_groups(tmp_path):
    """Dynamo builds the size of a group that is given by name into the graph. The second run gives
    the same names to other groups."""
    script = f"""{COMPILED}
import torch.distributed.distributed_c10d as c10d
def mean(x, name):
    return functional.all_reduce(x + 1, "sum", name) / c10d._get_group_size_by_name(name)
mean = compiled(mean)
for ranks in ALL_RANKS:
    group = dist.new_group(ranks)
    if rank in ranks:
        equal(mean(x, group.group_name), sum(all_x[each] + 1 for each in ranks) / len(ranks))
"""
    variables = {"HPU_CACHE_DIR": str(tmp_path)}
    for all_ranks in ("[0, 1], [0]", "[0], [0, 1]", "[0], [0, 1]"):
        expect_success(2, script.replace("ALL_RANKS", f"[{all_ranks}]"), variables, fresh=True)


def test_groups_that_are_destroyed_run_what_is_recorded_of_them() -> None:
    """Only rank 0 reads the result of the second group."""
    expect_success(
        2,
        f"""{RECORDED}
group = dist.new_group([0, 1])
y = x * 2
dist.all_reduce(y, group=group)
dist.destroy_process_group(group)
equal(y, 2 * sum(all_x))
z = x * 3
dist.all_reduce(z)
dist.destroy_process_group()
if rank == 0:
    equal(z, 3 * sum(all_x))
""",
        LAZY,
    )
