"""Programs read about the graphs of hpu_backend in the log of graphs, FxGraphAnalyzer and the
modules of the bridge's compiler, also where programs come from the store."""

from __future__ import annotations

import re

import pytest
import torch
from functorch.compile import aot_function
from helpers import fresh_process
from processes import output_of
from torch.fx.experimental.proxy_tensor import make_fx

import habana_frameworks.torch as ht
from habana_frameworks.torch import dynamo
from habana_frameworks.torch.dynamo.compile_backend import (
    compilers,
    partition_fn,
    passes,
    random_utils,
    recipe_compiler,
    shared_layer,
)
from habana_frameworks.torch.dynamo.programs.service import service
from habana_frameworks.torch.utils.debug.dynamo_utils import FxGraphAnalyzer


@pytest.fixture(autouse=True)
def fresh():
    fresh_process()
    yield
    for logger in (passes.logger, shared_layer.logger):
        logger.set_store_data(False)
    shared_layer.hpu_fallback_op_list.clear()


def function(x, y):
    return (x + y) * x - torch.lgamma(y)


def call(again: object = None, device: str = "hpu") -> torch.Tensor:
    """Compiles anew, in the same process."""
    torch._dynamo.reset()
    x, y = torch.arange(1.0, 6.0), torch.full((5,), 3.0)
    with torch.no_grad():
        got = torch.compile(function, backend="hpu_backend")(x.to(device), y.to(device))
        torch.testing.assert_close(got.cpu(), function(x, y))
    return got


def operators_in_log() -> set[str]:
    """As the bridge's own tests read it: the names after "::" of each line of a graph."""
    marked = [line for line in passes.logger.data if "####PyTorch-generated JIT IR" in line]
    return {m[1] for text in marked for x in text.split("\n") if (m := re.search(r"::(\w+)\(", x))}


def decisions_in_log() -> dict[str, str]:
    pattern = r"\[PT_COMPILE\] Node: (\w+) requires fallback: (\w+)"
    found = (re.match(pattern, line) for line in shared_layer.logger.data)
    return {m[1]: m[2] for m in found if m}


def read_logs(origin: str) -> None:
    passes.logger.set_store_data(True)
    shared_layer.logger.set_store_data(True)
    call()
    assert dynamo.report().graphs[-1].origin == origin
    assert operators_in_log() == {"add", "mul", "lgamma", "sub"}
    decisions = decisions_in_log()
    assert decisions.pop("lgamma") == "True"
    assert set(decisions.values()) == {"False"}
    assert len(decisions) == 3


def test_the_logs_are_the_same_wherever_the_program_comes_from():
    service.forget_programs()
    call()
    first = dynamo.report().graphs[-1].origin
    assert first in ("compiled", "store", "memory")
    read_logs("memory")
    service.forget_programs()
    read_logs("store")


_PROCESS = """
import torch, habana_frameworks.torch
from habana_frameworks.torch import dynamo
from habana_frameworks.torch.dynamo.compile_backend import passes, shared_layer
from habana_frameworks.torch.utils.debug.dynamo_utils import FxGraphAnalyzer

def function(x):
    return torch.tanh(x) * 3 - torch.lgamma(x)

compiled = torch.compile(function, backend="hpu_backend")
x = torch.ones(5, device="hpu")
READ
with torch.no_grad(), FxGraphAnalyzer() if ANALYZE else torch.no_grad() as analyzer:
    compiled(x)
graph = dynamo.report().graphs[-1]
print(graph.origin, graph.traced, len(passes.logger.data), len(shared_layer.logger.data))
print(sorted(analyzer.get_ops_summary()[0]) if ANALYZE else "")
"""


@pytest.mark.parametrize(
    ("read", "analyzes"),
    [
        ("passes.logger.set_store_data(True)", False),
        ("shared_layer.logger.set_store_data(True)", False),
        ("", True),
    ],
)
def test_a_second_process_reads_what_the_first_one_read(private_cache, tmp_path, read, analyzes):
    script = tmp_path / "script.py"

    def run(read: str, analyzes: bool) -> tuple[str, str]:
        # The script has one name in all processes, so that a start fits.
        script.write_text(_PROCESS.replace("READ", read).replace("ANALYZE", str(analyzes)))
        code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
        origin, _, rest = output_of(code, HPU_CACHE_DIR=str(private_cache)).stdout.partition(" ")
        return origin, rest

    first = run(read, analyzes)
    assert first[0] == "compiled"
    traced, listings, decisions = first[1].splitlines()[0].split()
    assert traced == "True"
    assert (int(listings) > 0) is read.startswith("passes")
    assert (int(decisions) > 0) is read.startswith("shared")
    if analyzes:
        names = ("lgamma.default", "mul.Tensor", "sub.Tensor", "tanh.default")
        assert first[1].splitlines()[1] == str([f"torch.ops.aten.{name}" for name in names])
    # A process without readers begins without tracing; the next reader reads all the same.
    assert run("", False) == ("store", "False 0 0\n\n")
    assert run(read, analyzes) == ("store", first[1])


def counts(analyzer: FxGraphAnalyzer) -> list[dict[str, tuple[int, int]]]:
    return [
        {
            name.removeprefix("torch.ops.aten."): (c.graph_count, c.eager_count)
            for name, c in g.items()
        }
        for g in analyzer.get_ops_summary()
    ]


def test_operators_of_a_graph_are_counted():
    expected = [
        {"add.Tensor": (1, 0), "mul.Tensor": (1, 0), "lgamma.default": (0, 1), "sub.Tensor": (1, 0)}
    ]
    for forget in (False, True):
        if forget:
            service.forget_programs()
        with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
            call()
        assert counts(analyzer) == expected
        assert analyzer.get_partition_num() >= 1
    assert str(analyzer.get_ops_summary()[0]["torch.ops.aten.lgamma.default"]) == (
        "{graph_count = 0, eager_count = 1}"
    )


def test_analyzers_inside_one_another_count_what_they_enclose():
    with FxGraphAnalyzer(reset_dynamo=True) as outer:
        with FxGraphAnalyzer() as first:
            call()
        with FxGraphAnalyzer() as second:
            torch.compile(lambda x: x.exp(), backend="hpu_backend")(torch.ones(3, device="hpu"))
    call()
    assert counts(second) == [{"exp.default": (1, 0)}]
    assert counts(outer) == counts(first) + counts(second)


def test_a_graph_on_the_cpu_has_no_operators_of_the_device():
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        call(device="cpu")
    assert counts(analyzer) == [{}]
    with FxGraphAnalyzer(reset_dynamo=True, capture_non_hpu_output=True) as analyzer:
        call(device="cpu")
    (graph,) = counts(analyzer)
    assert sum(eager for _, eager in graph.values()) == 4
    assert sum(held for held, _ in graph.values()) == 0


def test_forward_and_backward_are_counted_apart():
    model = torch.nn.Linear(4, 3).to("hpu")
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        compiled = torch.compile(model, backend="hpu_backend")
        compiled(torch.ones(2, 4, device="hpu")).sum().backward()
    forward, backward = counts(analyzer)
    assert forward
    assert backward
    assert not any("eager" in name for name in forward)
    assert {"mm.default", "addmm.default", "linear.default"} & {*forward, *backward}


def test_an_operator_on_the_list_runs_eagerly():
    call()
    shared_layer.hpu_fallback_op_list.add("mul")
    call()
    graph = dynamo.report().graphs[-1]
    assert graph.origin == "eager"
    assert "hpu_fallback_op_list names aten.mul.Tensor" in graph.reason
    shared_layer.hpu_fallback_op_list.remove("mul")
    call()
    assert dynamo.report().graphs[-1].origin == "memory"


def test_no_start_remembers_the_list(private_cache):
    code = """
import torch, habana_frameworks.torch
from habana_frameworks.torch import dynamo
from habana_frameworks.torch.dynamo.compile_backend.shared_layer import hpu_fallback_op_list
ADD
with torch.no_grad():
    torch.compile(lambda x: torch.tanh(x) * 3, backend="hpu_backend")(torch.ones(5, device="hpu"))
print(dynamo.report().graphs[-1].origin)
"""
    listed, plain = code.replace("ADD", "hpu_fallback_op_list.add('tanh')"), code.replace("ADD", "")
    cache = str(private_cache)
    runs = [
        output_of(c, HPU_CACHE_DIR=cache).stdout.strip() for c in (listed, plain, listed, plain)
    ]
    assert runs == ["eager", "compiled", "eager", "store"]


# ---- the modules of the bridge's compiler --------------------------------------------------------


def test_the_compilers_are_those_that_aotautograd_takes():
    def loss(x, w):
        return torch.relu(x @ w).square().mean()

    compiled = aot_function(
        loss,
        fw_compiler=compilers.hpu_training_compiler_fw,
        bw_compiler=compilers.hpu_training_compiler_bw,
        inference_compiler=compilers.hpu_inference_compiler,
    )
    x, w = torch.randn(3, 4), torch.randn(4, 2)
    on_hpu = w.to("hpu").requires_grad_()
    compiled(x.to("hpu"), on_hpu).backward()
    on_cpu = w.clone().requires_grad_()
    loss(x, on_cpu).backward()
    torch.testing.assert_close(on_hpu.grad.cpu(), on_cpu.grad)
    assert all(graph.recipes for graph in dynamo.report().graphs)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x.to("hpu"), w.to("hpu")).cpu(), loss(x, w))


def test_a_graph_module_runs_as_recipes():
    x = torch.randn(6)
    graph = make_fx(lambda x: torch.tanh(x) * 2)(x.to("hpu"))
    module = recipe_compiler.HabanaGraphModule(graph)
    with torch.no_grad():
        for scale in (1, 2):
            torch.testing.assert_close(
                module((x * scale).to("hpu")).cpu(), torch.tanh(x * scale) * 2
            )
    assert dynamo.report().graphs[-1].recipes == 1


class Clones(torch.nn.Module):
    def __init__(self, view: bool, writes: str) -> None:
        super().__init__()
        self.view, self.writes = view, writes

    def forward(self, x):
        y = torch.relu(x)
        copied = y.clone()
        if self.view:
            copied = copied.view(-1)
        if self.writes == "copy":
            copied.add_(3.0)
        elif self.writes == "source":
            y.mul_(2.0)
        return y.sum() + copied.exp().sum()


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize(("writes", "goes"), [("", True), ("copy", False), ("source", False)])
def test_a_clone_goes_where_nobody_writes(view, writes, goes):
    module, x = Clones(view, writes), torch.randn(4, 5)
    graph = make_fx(module)(x)
    assert partition_fn.remove_unnecessary_clone(graph) is graph
    there = any(node.target is torch.ops.aten.clone.default for node in graph.graph.nodes)
    assert there is not goes
    torch.testing.assert_close(graph(x), module(x))


def test_a_clone_to_other_strides_stays():
    graph = make_fx(lambda x: x.t().clone(memory_format=torch.contiguous_format) + 1)(
        torch.randn(3, 4)
    )
    partition_fn.remove_unnecessary_clone(graph)
    assert any(node.target is torch.ops.aten.clone.default for node in graph.graph.nodes)


def test_random_operators_of_graphs():
    names = random_utils.HABANA_RANDOM_OPS_LIST
    assert (
        set(names) == set(random_utils.HABANA_RANDOM_OPS) == {*random_utils.HABANA_CHECKPOINT_OPS}
    )
    graph = make_fx(lambda x: torch.bernoulli(x) + x)(torch.ones(3))
    drawn = [node for node in graph.graph.nodes if random_utils.is_random_op(node)]
    assert [str(node.target) for node in drawn] == ["aten.bernoulli.default"]
    assert not any(map(random_utils.is_backward_checkpoint_op, graph.graph.nodes))


def test_loggers_of_the_backend(caplog):
    logger = ht.dynamo.debug_utils.logger
    with caplog.at_level("DEBUG", logger="habana_frameworks.torch"):
        logger.get_compile_backend_logger().warn("a line")
        logger.get_fx_graph_logger().info("another {}", 7)
        assert logger.log_function_start_end(lambda x: x + 1)(1) == 2
        logger.dump_fx_graph(make_fx(torch.tanh)(torch.ones(2)), "listing", 4)
    assert caplog.messages[:2] == ["[PT_COMPILE] a line", "[PT_COMPILE FX GRAPH] another 7"]
    assert caplog.messages[2] == "[PT_COMPILE] <lambda> begins"
    assert "graph_recipe_4" in caplog.messages[-1]
