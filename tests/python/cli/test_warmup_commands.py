"""hpu-compile warm, record and replay; in other processes where two of them meet or one is
killed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from eventually import wait_until
from helpers import fresh_process
from paths import ROOT

from habana_frameworks.torch import cli, hpu, native
from habana_frameworks.torch.dynamo.programs.service import service
from habana_frameworks.torch.warmup.plan import EntryPlan, Plan

MODEL = """
import torch
def make(scale=2.0):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)
        def forward(self, x):
            return torch.softmax(self.layer(x), -1) {after}
    return Net()
def broken():
    raise FileNotFoundError("no weights here")
"""
MANIFEST = """
version: 1
parallel: 4
models:
  - name: net
    model: app:make
    inputs:
      x: {shape: [batch, sequence, 8], dtype: float32}
    batch: [1, 2]
    sequence: {linear: {low: 4, high: 12, step: 4}}
"""


class Host:
    """A folder with a model and a manifest, and hpu-compile in it."""

    def __init__(self, folder, capsys):
        self.folder = folder
        self._capsys = capsys

    def begin(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "habana_frameworks.torch.cli", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, code=0):
        """Runs in this process, which has compiled nothing and imported no model yet."""
        fresh_process()
        service.reset()
        sys.modules.pop("app", None)
        importlib.invalidate_caches()
        returned = cli.main([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert returned == code, err
        return json.loads(out) if "--json" in arguments else out + err


@pytest.fixture
def host(tmp_path, private_cache, monkeypatch, capsys):
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "app.py").write_text(MODEL.format(after="* 2"))
    (tmp_path / "net.yaml").write_text(MANIFEST)
    yield Host(tmp_path, capsys)
    sys.modules.pop("app", None)
    service.reset()


def counters():
    return service.connect().stats()


def counts(report):
    return [report[name] for name in ("hits", "compiled", "failed", "left")]


def test_warm_then_replay_then_changed_code(host):
    page = host.folder / "page.html"
    plan = host.run("warm", "net.yaml", "--plan", "--json")
    assert (plan["shapes"], plan["seconds"]) == (6, None)
    assert plan["entries"][0]["weight_bytes"] == 2 * 512  # as the device allocates them
    # The input, and results of addmm and softmax, of [2, 12, 8] numbers; * 2 makes the third.
    assert 1024 * 3 <= plan["entries"][0]["call_bytes"] <= 1024 * 6
    assert host.run("replay", "net.yaml", "--json", code=1)["failed"] == 6
    assert counters()["compile.compiled"] == 0
    first = host.run("warm", "net.yaml", "--json", "--html", str(page))
    assert counts(first) == [0, 6, 0, 0]
    assert not any(row["launched"] for row in first["rows"])
    assert page.read_text().count('<tr class="compiled">') == 6
    assert host.run("warm", "net.yaml", "--plan", "--json")["seconds"] > 0
    told = host.run("replay", "net.yaml")
    assert "net 2x12" in told
    assert "6 hits, 0 compiled, 0 failed, 0 left" in told
    # A shape that could start without tracing is not launched either.
    repeated = host.run("warm", "net.yaml", "--json")
    assert counts(repeated) == [6, 0, 0, 0]
    assert not any(row["launched"] for row in repeated["rows"])
    again = host.run("warm", "net.yaml", "--json", "--execute")
    assert counts(again) == [6, 0, 0, 0]
    assert all(row["launched"] and row["run_ms"] > 0 for row in again["rows"])
    # The same manifest with another function has other keys.
    (host.folder / "app.py").write_text(MODEL.format(after="* 3"))
    assert host.run("replay", "net.yaml", "--json", code=1)["failed"] == 6
    assert counts(host.run("warm", "net.yaml", "--json")) == [0, 6, 0, 0]


def test_a_plan_foretells_time_and_memory(host):
    """The plan is for programs that are not stored, by a server that has compiled before."""
    assert counts(host.run("warm", "net.yaml", "--json")) == [0, 6, 0, 0]
    (host.folder / "app.py").write_text(MODEL.format(after="* 5"))
    larger = MANIFEST.replace("[1, 2]", "[32, 64]").replace(
        "low: 4, high: 12, step: 4", "low: 256, high: 512, step: 256"
    )
    (host.folder / "larger.yaml").write_text(larger)
    plan = host.run("warm", "larger.yaml", "--plan", "--json")
    assert counters()["compile.compiled"] == 6
    entry = plan["entries"][0]
    assert entry["first_trace_seconds"] > 0 < entry["trace_seconds"]
    before = hpu.memory_allocated()
    hpu.reset_peak_memory_stats()
    report = host.run("warm", "larger.yaml", "--execute", "--json")
    assert counts(report) == [0, 4, 0, 0]
    peak = hpu.max_memory_allocated() - before
    foretold = entry["weight_bytes"] + entry["call_bytes"] + entry["waiting_bytes"]
    assert peak <= foretold <= 2 * peak
    assert plan["seconds"] / 10 < report["seconds"] < plan["seconds"] * 10


def test_the_time_of_a_plan():
    """Traces are serial; compilations share the cores with them."""
    entry = EntryPlan("net", 10, making_seconds=2, first_trace_seconds=3, trace_seconds=0.5)
    assert entry.serial_seconds == 2 + 3 + 9 * 0.5
    assert Plan([entry], 2, 0, None).seconds is None
    assert Plan([entry], 2, 0, 0.1).seconds == 9.5 + 0.1
    assert Plan([entry], 2, 0, 4.0).seconds == (9.5 + 40) / 2
    assert Plan([entry, entry], 1, 0, 1.0).seconds == 19 + 20


def test_the_example(host):
    plan = host.run("warm", str(ROOT / "examples/warmup/encoder.yaml"), "--plan", "--json")
    assert (plan["shapes"], "problem" in plan) == (12, False)


def daemon_process():
    client = native.client_module()
    found = client.server_process(client.server_paths(os.environ["HPU_CACHE_DIR"])["socket"])
    return found and found[0]


def begin_and_wait(host, stored):
    """Starts a warm-up in a process of its own, and returns once so many of its programs would
    outlive the daemon."""
    process = host.begin("warm", "net.yaml", "--parallel", "1", "--json")

    def are_stored() -> bool:
        assert process.poll() is None or process.returncode == 0
        return counters()["store.alias_puts"] >= stored

    wait_until(are_stored, f"{stored} programs are stored", 120)
    return process


def test_the_daemon_is_killed_in_mid_warm_up(host):
    """The daemon is started again; the warm-up continues, and all of its programs are there."""
    process = begin_and_wait(host, 2)
    os.kill(daemon_process(), signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    report = json.loads(out)
    assert (report["failed"], report["left"]) == (0, 0), err
    service.reset()
    assert counts(host.run("warm", "net.yaml", "--json")) == [6, 0, 0, 0]


def test_no_daemon_lives(host):
    """The warm-up stops and reports it; the same command continues it later."""
    process = begin_and_wait(host, 1)

    def ends_while_daemons_are_killed() -> bool:
        if daemon := daemon_process():
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGKILL)
        return process.poll() is not None

    wait_until(ends_while_daemons_are_killed, "the warm-up stops", 300)
    report = json.loads(process.communicate()[0])
    assert process.returncode == 1
    assert report["left"] > 0 == report["failed"], report
    assert report["stopped"], report
    assert "the same command goes on where this one ended" in report["problem"]
    service.reset()
    again = host.run("warm", "net.yaml", "--json")
    assert again["hits"] >= 1
    assert (again["failed"], again["left"]) == (0, 0)


def test_a_program_that_left_the_store_after_the_plan_is_compiled(host):
    first = host.run("warm", "net.yaml", "--json")
    assert "problem" not in host.run("warm", "net.yaml", "--plan", "--json")
    kept = [key for row in first["rows"] if row is not first["rows"][3] for key in row["programs"]]
    host.run("pin", *kept)
    assert host.run("gc", "--max-size", "0", "--json")["removed"] == 1
    assert host.run("replay", "net.yaml", "--json", code=1)["failed"] == 1
    again = host.run("warm", "net.yaml", "--json")
    assert counts(again) == [5, 1, 0, 0]
    assert again["rows"][3]["result"] == "compiled"
    assert counts(host.run("replay", "net.yaml", "--json")) == [6, 0, 0, 0]


def test_two_at_once_compile_each_program_once(host):
    both = [host.begin("warm", "net.yaml", "--json") for _ in range(2)]
    reports = [json.loads(process.communicate(timeout=180)[0]) for process in both]
    assert all(report["failed"] == report["left"] == 0 for report in reports)
    assert counters()["compile.compiled"] == 6


def test_killed_and_begun_again(host):
    process = begin_and_wait(host, 1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    report = host.run("warm", "net.yaml", "--json")
    assert report["hits"] >= 1
    assert report["hits"] + report["compiled"] == 6
    assert counters()["compile.compiled"] == 6


def test_factories_that_fail_and_shapes_that_do_not_fit(host):
    manifest = MANIFEST + MANIFEST.partition("models:\n")[2].replace("make", "broken").replace(
        "name: net", "name: other"
    )
    (host.folder / "two.yaml").write_text(manifest)
    told = host.run("warm", "two.yaml", code=1)
    assert "6 compiled, 6 failed, 0 left" in told
    line = 1 + manifest.splitlines().index("  - name: other")
    assert f"line {line}, model: app:broken raised FileNotFoundError: no weights here" in told
    told = host.run("warm", "two.yaml", "--plan", code=1)
    assert "12 shapes, no time is estimated where something is refused; " in told
    assert "other: 6 shapes, refused" in told and "of None" not in told
    (host.folder / "huge.yaml").write_text(MANIFEST.replace("[1, 2]", "[1, 1000000000]"))
    told = host.run("warm", "huge.yaml", "--plan", code=1)
    assert "net: 3 of 6 shapes do not fit: 1000000000x12 takes " in told
    assert "leave out 1000000000x12, 1000000000x8, 1000000000x4" in told
    (host.folder / "wrong.yaml").write_text(MANIFEST.replace("version: 1", "version: 2"))
    assert "wrong.yaml:2: version: 2 is of another" in host.run("warm", "wrong.yaml", code=1)


ENDING = {
    "a factory": ("def make(scale=2.0):\n    import sys; sys.exit(3)", "model: app:make raised"),
    "an import": ("import sys; sys.exit(3)", "model: app:make raised"),
    "a forward": (
        "class Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        import sys; sys.exit(3)\ndef make():\n    return Net()",
        "",
    ),
    "inputs": (
        "def make():\n    return torch.nn.Linear(8, 8)\n"
        "def inputs(batch, sequence):\n    import sys; sys.exit(3)",
        "inputs: ended:inputs raised",
    ),
}


@pytest.mark.parametrize("where", ENDING)
def test_user_code_that_ends_the_process_fails_its_rows_alone(host, where):
    code, text = ENDING[where]
    (host.folder / "ended.py").write_text(f"import torch\n{code}\n")
    second = MANIFEST.partition("models:\n")[2].replace("app:make", "ended:make")
    second = second.replace("name: net", "name: ended").replace("[1, 2]", "[1]")
    if where == "inputs":
        begin = second.index("    inputs:")
        end = second.index("    batch:")
        second = second[:begin] + "    inputs: ended:inputs\n" + second[end:]
    (host.folder / "two.yaml").write_text(MANIFEST + second)
    try:
        told = host.run("warm", "two.yaml", code=1)
        assert "6 compiled, 3 failed, 0 left" in told
        assert text.replace("app:", "ended:") in told
        assert "SystemExit: 3" in told
        planned = host.run("warm", "two.yaml", "--plan", code=1)
        assert re.search(r"hpu-compile warm: ended: .* raised SystemExit: 3", planned)
    finally:
        sys.modules.pop("ended", None)


def test_record_and_replay(host, tmp_path, monkeypatch):
    (host.folder / "serve.py").write_text(
        "import torch, app, habana_frameworks.torch\n"
        "net = torch.compile(app.make().to('hpu'), backend='hpu_backend', dynamic=False)\n"
        "with torch.no_grad():\n"
        "    for rows in (1, 2, 3):\n"
        "        net(torch.ones(rows, 4, 8, device='hpu'))\n"
        "print('served')\n"
    )
    told = host.run("record", "-o", "served.yaml", "serve.py")
    assert "served" in told
    assert "3 graphs in served.yaml" in told
    assert counts(host.run("replay", "served.yaml", "--json")) == [3, 0, 0, 0]
    monkeypatch.setenv("HPU_CACHE_DIR", str(tmp_path / "cache"))
    try:
        report = host.run("replay", "served.yaml", "--json", code=1)
        assert counts(report) == [0, 0, 3, 0]
        assert "it is not stored" in report["rows"][0]["error"]
    finally:
        host.run("stop")
