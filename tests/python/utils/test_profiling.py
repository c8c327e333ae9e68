"""Profiles: the device's own trace, torch.profiler, the Chrome trace."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch
from chrome_trace import check_chrome_trace
from helpers import fresh_process
from torch.profiler import ProfilerActivity

from habana_frameworks.torch import native
from habana_frameworks.torch.utils import profiler
from habana_frameworks.torch.utils.profiler.host_rates import HostRates, _host
from habana_frameworks.torch.utils.profiler.profile import Profile
from habana_frameworks.torch.utils.profiler.trace import Kernel, Launch

M, K, N = 64, 32, 48


@pytest.fixture(scope="module")
def product():
    """A compiled matrix product with a bias and relu, its inputs, and its recipe's name."""
    fresh_process()
    compiled = torch.compile(
        lambda x, w, b: torch.relu(x @ w + b), backend="hpu_backend", dynamic=False
    )
    inputs = [torch.randn(*shape).to("hpu") for shape in ((M, K), (K, N), (N,))]
    with torch.no_grad():
        compiled(*inputs)
    torch.hpu.synchronize()
    return compiled, inputs


def run(product, calls: int):
    compiled, inputs = product
    with torch.no_grad():
        for _ in range(calls):
            result = compiled(*inputs)
    torch.hpu.synchronize()
    return result


def test_kernels_have_exact_figures(product):
    with profiler.profile() as profile:
        run(product, 3)
    launches = profile.launches
    assert len(launches) == 3
    assert len({launch.work for launch in launches}) == 3
    gemms = [k for k in profile.kernels if k.engine == "mme" and k.flops]
    assert len(gemms) == 3
    assert all(k.flops == 2 * M * N * K for k in gemms)
    # The bytes of both factors and of the product; vectors of an epilogue do not count.
    assert all(k.bytes == 4 * (M * K + K * N + M * N) for k in gemms)
    assert all(k.tasks >= 1 for k in gemms)
    # The bias and relu are in the same kernel, whose name shows that.
    assert len(gemms[0].nodes) >= 2
    for launch in launches:
        own = [k for k in profile.kernels if k.work == launch.work and k.index >= 0]
        assert [k.index for k in own] == list(range(launch.kernels))
        for kernel in own:
            assert launch.start_ns <= kernel.start_ns
            assert kernel.start_ns + kernel.duration_ns <= launch.start_ns + launch.duration_ns
    programs = [h for h in profile.host if h.name.startswith("program ")]
    assert len(programs) == 3


def test_packing_is_shown_once(product):
    weight = product[1][1]
    with torch.no_grad():
        weight.copy_(torch.randn(K, N))  # this drops the packed copy
    with profiler.profile() as profile:
        run(product, 2)
    packs = [k for k in profile.kernels if k.index < 0]
    assert len(packs) <= 1  # small products need none
    assert all(p.engine == "mme" and p.bytes > 0 and p.flops == 0 for p in packs)


def test_a_profile_holds_only_its_block(product):
    run(product, 2)
    with profiler.profile() as profile:
        pass
    assert profile.launches == []
    assert profile.kernels == []
    run(product, 1)
    assert profile.launches == []


def test_one_trace_at_a_time(product):
    module = native.torch_module()
    with pytest.raises(module.DeviceError, match="no trace of the device is running"):
        module.stop_trace()
    with profiler.profile():
        assert module.host_tracing()
        with pytest.raises(module.DeviceError, match="a trace of the device is running already"):
            module.start_trace()
    assert not module.host_tracing()
    with pytest.raises(ZeroDivisionError), profiler.profile():
        _ = 1 / 0
    assert not module.host_tracing()


def test_report_adds_up(product):
    with profiler.profile() as profile:
        run(product, 5)
    report = profile.report()
    assert sum(row.share for row in report.kernels) == pytest.approx(1)
    assert sum(row.share for row in report.engines) == pytest.approx(1)
    assert sum(row.calls for row in report.kernels) == len(profile.kernels)
    mme = next(row for row in report.engines if row.engine == "mme")
    assert mme.flops == 5 * 2 * M * N * K
    gemm = next(row for row in report.kernels if row.flops == 2 * M * N * K and row.calls == 5)
    rate = gemm.flops / (gemm.best_ms / 1e3)
    assert gemm.peak_share == pytest.approx(rate / report.peak.flops_per_second)
    assert report.peak.flops_per_second > 1e8
    assert report.recipes[0].launches == 5
    recipe = report.recipes[0]
    assert recipe.kernels_ms <= recipe.total_ms
    assert recipe.busy_share + recipe.uneven_share + recipe.between_share == pytest.approx(1)
    assert recipe.between_share == pytest.approx(1 - recipe.kernels_ms / recipe.total_ms)
    assert 0 < recipe.busy_share <= 1
    assert recipe.threads >= 1
    assert recipe.cpu_per_wall > 0
    assert all(0 < row.busy_share <= 1.01 for row in report.kernels)
    waits = sum(row.wait_ms for row in report.kernels)
    assert waits <= recipe.total_ms - recipe.kernels_ms + 1e-6
    assert sum(row.kernels for row in report.roofline) == profile.launches[0].kernels
    assert sum(row.share for row in report.roofline) == pytest.approx(1)
    for row in report.roofline:
        assert row.least_share == pytest.approx(row.least_ms / row.best_ms)
    text = report.table(width=200)
    assert "CPU timings" in text
    assert gemm.nodes[0] in text
    assert f"{gemm.flops / 1e6:.3f}" in text
    assert profile.report(measure_peak=False).peak is None
    json.dumps(report.as_dict())


def _kernel(index, start_ns, duration_ns, busy_ns, flops=0, moved=1, factors="f32"):
    return Kernel(
        f"k{index}", start_ns, duration_ns, "r", 7, index, "mme", 8, 1, moved, flops, factors,
        busy_ns, [],
    )  # fmt: skip


def test_report_says_where_the_threads_time_went(monkeypatch):
    """A launch of 1,000 ns on two threads: 100 before the first kernel, 50 between both."""
    rates = HostRates(2e9, 8e9, 1e9, 0, 0, 0)
    monkeypatch.setattr(HostRates, "known", staticmethod(lambda: rates))
    profile = Profile()
    launch = Launch("r", 0, 1000, "r", 7, 2, threads=2, cpu_ns=1700)
    kernels = [_kernel(0, 100, 400, 700, 1600, 100, "bf16"), _kernel(1, 550, 450, 450, 0, 225)]
    monkeypatch.setattr(Profile, "launches", [launch])
    monkeypatch.setattr(Profile, "kernels", kernels)
    report = profile.report()
    (recipe,) = report.recipes
    assert recipe.busy_share == pytest.approx(1150 / 2000)
    assert recipe.uneven_share == pytest.approx(550 / 2000)
    assert recipe.between_share == pytest.approx(300 / 2000)
    assert recipe.cpu_per_wall == pytest.approx(1.7)
    first, second = sorted(report.kernels, key=lambda row: row.nodes)
    assert (first.wait_ms, second.wait_ms) == (pytest.approx(100e-6), pytest.approx(50e-6))
    assert (first.busy_share, second.busy_share) == (pytest.approx(0.875), pytest.approx(0.5))
    assert first.peak_share == pytest.approx(4e9 / 8e9)  # relative to the bf16 peak
    assert {row.bound: row.least_share for row in report.roofline} == {
        "arithmetic": pytest.approx(0.5),
        "memory": pytest.approx(0.5),
    }
    assert "uneven" in report.table(width=200)


def test_task_times(product):
    with profiler.profile(tasks=True) as profile:
        run(product, 2)
    for kernel in profile.kernels:
        pieces = -(-kernel.tasks // kernel.grain)
        assert len(kernel.task_ns) in (1, min(pieces, 1024))
        assert sum(kernel.task_ns) <= kernel.duration_ns
    with profiler.profile() as plain:
        run(product, 1)
    assert all(kernel.task_ns == [] for kernel in plain.kernels)


def test_rates_of_the_host_are_measured_once(monkeypatch, tmp_path, caplog):
    calls = []

    class Module:
        is_emulated = staticmethod(lambda: True)
        isa_level = staticmethod(lambda: "x86-64-v9")

        @staticmethod
        def measure_host_peak():
            calls.append(1)
            return (1e9, 2e9, 3e9, 1, 2, 3)

    path = tmp_path / "cache" / "host_rates.json"
    rates = dict.fromkeys((f.name for f in dataclasses.fields(HostRates)), 1)
    zero_rates = json.dumps({"%s": {**rates, "bytes_per_second": 0}})
    monkeypatch.setenv("HPU_CACHE_DIR", str(path.parent))
    monkeypatch.setattr(native, "torch_module", lambda: Module)
    HostRates.known.cache_clear()
    try:
        first = HostRates.known()
        HostRates.known.cache_clear()
        assert HostRates.known() == first
        assert (len(calls), first.flops_of("bf16"), first.flops_of("f32")) == (1, 2e9, 1e9)
        HostRates.known.cache_clear()
        assert path.parent.stat().st_mode & 0o777 == 0o700
        path.write_text("{")
        assert HostRates.known() == first
        assert len(calls) == 2
        assert "measured again" in caplog.text
        HostRates.forget()
        HostRates.known()
        assert len(calls) == 3
        for wrong in ("[]", '{"%s": []}', '{"%s": {"flops_per_second": "fast"}}', zero_rates):
            HostRates.known.cache_clear()
            hosts = wrong.replace("%s", _host("x86-64-v9"))
            path.write_text(f'{{"format": 1, "hosts": {hosts}}}')
            assert HostRates.known() == first
        assert len(calls) == 7
        HostRates.known.cache_clear()
        path.unlink()

        def full(*_):
            raise OSError("no space left")

        monkeypatch.setattr(os, "replace", full)
        assert HostRates.known() == first
        assert "no space left" in caplog.text
        assert list(path.parent.iterdir()) == []
    finally:
        HostRates.known.cache_clear()


def test_chrome_trace(product, tmp_path):
    with profiler.profile() as profile:
        result = run(product, 2)
        result.cpu()
    path = tmp_path / "trace.json"
    profile.export_chrome_trace(path)
    content = json.loads(path.read_text())
    rows = check_chrome_trace(content)
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in content["traceEvents"]
        if e["name"] == "thread_name"
    }
    assert names.keys() == rows.keys()
    by_name = {name: rows[row] for row, name in names.items()}
    assert len([e for e in by_name["MME"] if e["args"]["flops"]]) == 2
    assert len(by_name["stream 0"]) == 2
    host = [e["name"] for row, name in names.items() if name[:6] == "thread" for e in rows[row]]
    assert len([n for n in host if n.startswith("program ")]) == 2
    assert host.count("synLaunch") == 2
    assert "copy to host" in host
    # The arrow of a launch begins at its call.
    calls = [
        (e["ts"], e["ts"] + e["dur"])
        for row in rows.values()
        for e in row
        if e["name"] == "synLaunch"
    ]
    arrows = [e["ts"] for e in content["traceEvents"] if e["ph"] == "s"]
    assert sum(any(a <= t <= b for a, b in calls) for t in arrows) == 2


def test_torch_profiler_shows_launches_and_kernels(product, tmp_path):
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as prof:
        run(product, 3)
    table = prof.key_averages().table(max_name_column_width=120)
    launches = [e for e in prof.events() if e.name.startswith("hpu::launch ")]
    assert len(launches) == 3
    assert launches[0].name in table
    programs = [e for e in prof.events() if e.name.startswith("hpu::program ")]
    assert len(programs) == 3
    assert launches[0].cpu_parent.name == programs[0].name
    kernels = [e for e in prof.events() if e.device_type == torch.autograd.DeviceType.HPU]
    assert len(kernels) >= 3
    assert all(k.name in table for k in kernels)
    path = tmp_path / "torch.json"
    prof.export_chrome_trace(str(path))
    content = json.loads(path.read_text())
    events = [e for e in content["traceEvents"] if e.get("cat") == "hpu_op"]
    gemms = [e for e in events if e["args"].get("flops") == 2 * M * N * K]
    assert len(gemms) == 3
    assert all(e["args"]["kind"] == "mme" and e["args"]["recipe"] for e in gemms)
    # The times are on PyTorch's clock: kernels start after their launch's call did.
    calls = sorted(e["ts"] for e in content["traceEvents"] if e["name"].startswith("hpu::launch "))
    assert all(
        c <= g["ts"] for c, g in zip(calls, sorted(gemms, key=lambda e: e["ts"]), strict=True)
    )
    labels = [e["args"]["labels"] for e in content["traceEvents"] if e["name"] == "process_labels"]
    assert any("CPU timings" in label for label in labels)


def test_torch_profiler_gives_device_time_to_the_launch(product):
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as prof:
        run(product, 3)
    launch = next(e for e in prof.key_averages() if e.key.startswith("hpu::launch "))
    kernels = [e for e in prof.events() if e.device_type == torch.autograd.DeviceType.HPU]
    spent = sum(k.time_range.elapsed_us() for k in kernels)
    assert launch.device_time_total == pytest.approx(spent, rel=0.01)


def test_torch_profiler_without_the_device(product):
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as prof:
        run(product, 1)
    assert not [e for e in prof.events() if e.device_type != torch.autograd.DeviceType.CPU]
    assert [e for e in prof.events() if e.name.startswith("hpu::launch ")]
    assert not native.torch_module().host_tracing()


def test_compilations_are_shown():
    fresh_process()
    offset = torch.rand(()).item()  # so that no store has the graph
    compiled = torch.compile(lambda x: x * offset, backend="hpu_backend", dynamic=False)
    x = torch.ones(3, device="hpu")
    with (
        profiler.profile() as profile,
        torch.profiler.profile(activities=[ProfilerActivity.CPU]) as prof,
        torch.no_grad(),
    ):
        compiled(x)
    for names in ([h.name for h in profile.host], [e.name for e in prof.events()]):
        for stage in ("prepare", "fetch", "capture", "compile"):
            assert [n for n in names if n.startswith(f"hpu::{stage} graph_0")], (stage, names)


def test_bridge_names(product, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    profiler._setup_profiler()
    profiler._start_profiler()
    run(product, 1)
    profiler._stop_profiler()
    content = json.loads((tmp_path / f"default_profiling_{os.getpid()}.json").read_text())
    assert [e for e in content["traceEvents"] if e.get("cat") == "launch"]
