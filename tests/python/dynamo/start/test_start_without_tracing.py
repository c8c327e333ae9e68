"""Starts without tracing: a hit where nothing differs; a trace and a right answer where one thing
does (start_differences). Processes of one test share a cache folder."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from conftest import stop_daemon
from paths import TESTS
from processes import output_of, run_python
from start_cases import CASES, REFUSED
from start_differences import DIFFERENCES
from start_process import TIMEOUT_S

from habana_frameworks.torch import cli
from habana_frameworks.torch.dynamo.records.records import GraphRecord
from habana_frameworks.torch.dynamo.start import files, graphs
from habana_frameworks.torch.dynamo.start.describe import Refused

DRIVER = TESTS / "start_process.py"
# The other cases are slow: together they take minutes.
SHORT = {
    "net: patched function of torch",
    "net: attribute of a module",
    "net: values of weights",
    "net: forward hook",
    "helpers: edited function",
    "opaques: what an opaque function calls",
    "constants: variable behind a constant",
    "sums: build of the compiler",
}


# Modules that a process needs to compile, and not to start.
COMPILING = {
    f"habana_frameworks.torch.dynamo.{name}"
    for name in (
        "hook",
        "capture.graph_capture",
        "capture.capture",
        "capture.joint",
        "capture.functional",
        "capture.decompositions.find_decomposition",
    )
}


def process(cache, case, name="", **environment):
    done = output_of(DRIVER, case, name, timeout=TIMEOUT_S, HPU_CACHE_DIR=str(cache), **environment)
    return json.loads(done.stdout.splitlines()[-1])


class Forks:
    """A process that has imported the modules and does nothing else; it forks for every
    question."""

    def __init__(self, cache, seed):
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed in close()
        self._process = subprocess.Popen(
            [sys.executable, DRIVER, "--serve"],
            env={**os.environ, "HPU_CACHE_DIR": str(cache), "PYTHONHASHSEED": seed},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, case, name=""):
        self._process.stdin.write(f"{case}\t{name}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "failed" in answer:
            self._log.seek(0)
            pytest.fail(self._log.read()[-3000:])
        return answer

    def close(self):
        self._process.stdin.close()
        self._process.wait(TIMEOUT_S)
        self._process.stdout.close()
        self._log.close()


class Pairs:
    """The process that stores starts and those that may load them: no address and no order of a set
    is the same in both."""

    def __init__(self, cache):
        self.cache = cache
        self._storing = Forks(cache, "1")
        self._loading = Forks(cache, "2")

    @functools.cache  # noqa: B019  one object in a module
    def stored(self, case):
        return self._storing.ask(case)

    def load(self, case, name=""):
        environment = DIFFERENCES[name].environment if name else ()
        if environment:
            return process(self.cache, case, name, **dict(environment))
        return self._loading.ask(case, name)

    def close(self):
        self._storing.close()
        self._loading.close()


@pytest.fixture(scope="module")
def pairs():
    with tempfile.TemporaryDirectory(prefix="hpu-test-", ignore_cleanup_errors=True) as folder:
        made = Pairs(Path(folder))
        yield made
        made.close()
        stop_daemon(Path(folder))


def slow_unless(short, names):
    return [n if n in short else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize(("case", "frames"), [("net", 1), ("broken", 2), ("train", 1)])
def test_the_second_process_does_not_trace(private_cache, case, frames):
    first, second = (process(private_cache, case) for _ in range(2))
    assert first["traced"] == [True] * frames and first["kept"] == [""] * frames
    assert second["traced"] == [False] * frames
    assert not any("not traced" in line for line in first["report"])
    assert len(second["report"]) == frames
    assert all(": hit, store, not traced, key " in line for line in second["report"])
    assert first["right"] and second["right"] and first["answer"] == second["answer"]
    assert set(first["modules"]) >= COMPILING and not set(second["modules"]) & COMPILING


REASONS = """
import torch
model = torch.nn.Linear(4, 4).to("hpu")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(4, 4).to("hpu")
model(x).sum().backward()
options = {"start_without_tracing": True}
torch.compile(lambda: optimizer.step(), backend="hpu_backend", options=options)()
compiled = torch.compile(lambda x: x * 2, backend="hpu_backend", options=options, dynamic=True)
compiled(x)
from habana_frameworks.torch.dynamo.start import journal
print([outcome.not_kept for outcome in journal.outcomes()])
"""


@pytest.mark.slow
def test_what_no_start_is_kept_of_says_so(private_cache):
    told = output_of(REASONS, HPU_CACHE_DIR=str(private_cache)).stdout
    assert "is about an optimizer (AdamW): Dynamo builds its parameters and its state into" in told
    assert "its shapes are dynamic: a start holds guards of one shape, not of ranges" in told


def test_a_miss_after_a_load_is_traced(private_cache):
    process(private_cache, "net")
    answer = process(private_cache, "net", "another input")
    assert answer["traced"] == [False, True] and answer["right"]


def test_what_others_signed_is_not_read(private_cache):
    process(private_cache, "net")
    (private_cache / "start" / "key").write_bytes(bytes(32))
    answer = process(private_cache, "net")
    assert answer["traced"] == [True] and answer["right"]


def test_a_folder_open_to_others_is_not_read(private_cache):
    process(private_cache, "net")
    (private_cache / "start").chmod(0o755)
    answer = process(private_cache, "net")
    assert answer["traced"] == [True] and answer["right"]
    assert "is open to other users" in answer["reasons"][0]


def _flipped(content):
    if not content:  # it belongs to a program that an earlier test damaged
        return content
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "one bit": _flipped,
    "longer": lambda content: content + b"x",
    "another version": lambda content: content.replace(b"hpu-start-1", b"hpu-start-2", 1),
}


@pytest.mark.parametrize("damage", slow_unless({"one bit"}, DAMAGES))
def test_a_damaged_file_is_a_trace(pairs, damage):
    pairs.stored("net")
    for path in (pairs.cache / "start" / "starts").glob("*/*"):
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    answer = pairs.load("net")
    assert answer["right"] and answer["traced"] == [True]
    assert pairs.load("net")["traced"] == [False]  # the start that the trace kept


@pytest.mark.slow
def test_the_start_of_another_key_is_not_taken(pairs):
    """A file that this user signed, moved to the key of another program."""
    pairs.stored("net")
    pairs.stored("tied")
    folder = pairs.cache / "start" / "starts"
    contents = [path.read_bytes() for path in folder.glob("*/*")]
    for key in folder.iterdir():
        for path in key.iterdir():
            own = path.read_bytes()
            path.unlink()
            other = next(content for content in contents if content != own)
            path.write_bytes(other)
    answer = pairs.load("tied")
    assert answer["right"] and answer["traced"] == [True]
    pairs.load("net")


@pytest.mark.parametrize("case", slow_unless({"helpers"}, sorted(set(CASES) - set(REFUSED))))
def test_every_case_starts_without_tracing(pairs, case):
    first, second = pairs.stored(case), pairs.load(case)
    assert first["right"] and second["right"] and first["answer"] == second["answer"]
    assert not any(first["kept"]) and not any(second["traced"]), (first["kept"], second["reasons"])


@pytest.mark.parametrize("name", slow_unless(SHORT, sorted(DIFFERENCES)))
def test_one_difference_is_never_a_wrong_answer(pairs, name):
    difference = DIFFERENCES[name]
    first = pairs.stored(difference.case)
    assert first["kept"] == (
        [REFUSED[difference.case]] if difference.case in REFUSED else first["kept"]
    )
    answer = pairs.load(difference.case, name)
    assert answer["right"], answer
    assert (answer["answer"] != first["answer"]) is difference.moves
    assert (not any(answer["traced"])) is difference.hits, answer["reasons"]


def test_graphs_under_way_belong_to_the_thread_that_traces():
    """Both threads trace a frame whose graph has the same name in Dynamo."""
    meet = threading.Barrier(2, timeout=TIMEOUT_S)
    taken = {}

    def trace(source):
        module = torch.fx.symbolic_trace(lambda x: x + 1)
        module.meta["backend_id"] = "__compiled_fn_1"
        with graphs.collecting():
            meet.wait()
            graphs.note(module, GraphRecord("graph", source, origin="eager", reason="a test"))
            meet.wait()
            taken[source] = graphs.take("__compiled_fn_1").source
        with pytest.raises(Refused, match="no program that another process finds"):
            graphs.take("__compiled_fn_1")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(trace, ("one", "other")))
    assert taken == {"one": "one", "other": "other"}


def explained(cache, capsys, monkeypatch, *arguments):
    monkeypatch.setenv("HPU_CACHE_DIR", str(cache))
    code = cli.main(["explain", *arguments])
    return code, capsys.readouterr()


def test_explain_says_why_a_process_traced(private_cache, capsys, monkeypatch):
    code, told = explained(private_cache, capsys, monkeypatch)
    assert code == 1 and "option start_without_tracing was off, or nothing was" in told.err
    for name in ("", "", "net: frozen weight"):
        process(private_cache, "net", name)
    code, told = explained(private_cache, capsys, monkeypatch, "--json")
    answer = json.loads(told.out)
    (start,) = answer["starts"]
    assert code == 0 and start["traced"] and start["function"].startswith("Net.forward (")
    assert [d["factor"] for d in start["differences"]] == ["local self"]
    assert start["reason"].startswith("what is stored differs in local self: ")
    outcomes = files.lines("journal")
    loaded = json.loads(outcomes[1])["process"]
    code, told = explained(private_cache, capsys, monkeypatch, "--process", str(loaded))
    assert code == 0 and "loaded in" in told.out and "traced" not in told.out.splitlines()[-1]
    code, told = explained(private_cache, capsys, monkeypatch, "--process", "1")
    assert code == 1 and f"the newest did: {json.loads(outcomes[0])['process']}, " in told.err


GROWING = """
import growing, torch
from habana_frameworks.torch.dynamo import report

compiled = torch.compile(growing.attend, backend="hpu_backend")
with torch.no_grad():
    for rows in (15, 4, 8, 64, 8):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x.to("hpu")).cpu(), growing.attend(x))
found = report()
print(found.compilations, len(found.graphs), sum(not graph.traced for graph in found.graphs))
"""
ATTEND = """
import torch

def attend(x):
    return torch.softmax(x @ x.T, -1)
"""


def test_sizes_after_a_start_are_what_they_were_after_its_trace(private_cache, tmp_path):
    """The second process starts the first size and treats the next one as dynamic, as the first
    process did."""
    (tmp_path / "growing.py").write_text(ATTEND)
    how = {"HPU_CACHE_DIR": str(private_cache), "HPU_COMPILE_AHEAD": "0"}
    counts = [output_of(GROWING, folder=tmp_path, **how).stdout.split() for _ in range(2)]
    assert counts == [["4", "4", "0"], ["0", "4", "1"]]


HELD = """
import gc, weakref, torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo import report
import held

model = held.Net().to("hpu").eval()
x = torch.ones(8, 16).to("hpu")
run = torch.compile(model, backend="hpu_backend", dynamic=False)
with torch.no_grad():
    run(x)
of_input, of_model = weakref.ref(x), weakref.ref(model)
del x
gc.collect()
print(report().graphs[-1].traced, of_input() is None, end=" ")
del run, model
torch._dynamo.reset()
gc.collect()
print(of_model() is None)
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.linear(x).relu()
"""


def test_a_start_keeps_neither_the_model_nor_its_first_inputs(private_cache, tmp_path):
    (tmp_path / "held.py").write_text(NET)
    how = {"folder": tmp_path, "HPU_CACHE_DIR": str(private_cache)}
    said = [output_of(HELD, **how).stdout.split() for _ in range(2)]
    assert said == [["True", "True", "True"], ["False", "True", "True"]]


WRONG_SIZES = """
import torch
import habana_frameworks.torch
compiled = torch.compile(torch.nn.Linear(4, 4).to("hpu"), backend="hpu_backend")
print(compiled(torch.ones(3, 4, device="hpu")).shape)
compiled(torch.ones(3, 8, device="hpu"))
"""


def test_a_start_that_does_not_fit_is_no_part_of_a_users_error(private_cache):
    for _ in range(2):  # the second process has a start, which other sizes do not fit
        process = run_python(WRONG_SIZES, fresh=True, HPU_CACHE_DIR=str(private_cache))
        assert process.stdout == "torch.Size([3, 4])\n"
        assert "must have same reduction dim" in process.stderr  # PyTorch logs it, and raises it
        assert "Refused" not in process.stderr
