"""hl-smi: each test reads it as a public program does."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import wait_until
from packaging.version import parse
from processes import output_of

import habana_frameworks
from habana_frameworks.hl_smi.processes import processes

MIB = 1 << 20
# The host of most tests has one module. A test that starts a process with the device gives it a
# module that no other test has.
ONE = {"HPU_EMULATOR_MODULES": "1"}
OWN = {"HPU_EMULATOR_MODULES": "60000", "HABANA_VISIBLE_MODULES": str(2000 + os.getpid() % 50000)}
# A process that uses the device: it says what it has reserved, and goes on computing until its
# standard input ends.
_USER = """
import sys, threading, torch, habana_frameworks.torch
x = torch.ones(2048, 2048, device="hpu")
product = torch.compile(lambda x: x @ x * 1e-4, backend="hpu_backend")
x = product(x)
busy = sys.argv[1] == "busy"
print(torch.hpu.memory_reserved(), flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0))).start()
while busy:
    x = product(x)
    torch.hpu.synchronize()
"""


def hl_smi(*arguments: str, **env: str) -> str:
    done = run(*arguments, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "habana_frameworks.hl_smi", *arguments]
    path = str(Path(habana_frameworks.__file__ or "").parents[1])
    return subprocess.run(
        command,
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin", **(ONE | env)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def rows(*fields: str, form: str = "csv,noheader", **env: str) -> list[list[str]]:
    text = hl_smi("-Q", ",".join(fields), "-f", form, **env)
    return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]


@contextlib.contextmanager
def user(how: str) -> Iterator[tuple[int, int]]:
    """A process with the device: its number and the bytes that it has reserved."""
    process = subprocess.Popen(
        [sys.executable, "-c", _USER, how],
        env=os.environ | OWN,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.pid, int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(timeout=60)


def test_the_table_as_optimum_habana_megatron_and_tgi_read_it():
    # They take the third line, without blanks, from the colon to the first hyphen.
    text = hl_smi(ENABLE_CONSOLE="true")
    third = text.split("\n")[2].replace(" ", "").split(":")[1][:-1].split("-")[0]
    properties = output_of(
        "import torch, habana_frameworks.torch as h; print(h.hpu.get_device_capability())"
    )
    assert parse(third) == parse(properties.stdout)
    assert parse(third) >= parse("1.19.0")
    assert {len(line) for line in text.splitlines()} == {79}
    assert "emulated" in text


def test_the_table_as_vllm_gaudi_reads_it():
    # The module's index, the name of the card and the bus are followed by N/A.
    row = re.compile(r"^\|\s*(\d+)\s+([A-Z0-9-]+)\s+N/A\s+\|\s*([0-9a-fA-F:.]+)\s+N/A\s*\|")
    found = [match.groups() for line in hl_smi().splitlines() if (match := row.match(line))]
    assert found == [("0", "HL-225", "0000:00:00.0")]


def test_versions_as_lightning_habana_and_the_bridge_read_them():
    text = hl_smi("-v")
    release = re.search(r"hl-([\d\.]+)", text)
    firmware = re.search(r"fw-([\d\.]+)", text)
    assert release
    assert firmware
    assert parse(release[1]) >= parse("1.24.1")
    assert "Habana" in text
    assert "emulated" in text


@pytest.mark.parametrize(("device", "digit"), [("gaudi2", "2"), ("gaudi3", "3"), ("gaudi", "-")])
def test_the_list_as_lightning_habana_and_the_bridges_tests_read_it(device, digit):
    text = hl_smi("-L", HPU_EMULATOR_DEVICE=device)
    found = re.search(r"hl-gaudi([\d\-])", text)
    assert found
    assert found[1] == digit
    ids = [line.split()[-1] for line in text.split("\n") if "Device Id" in line]
    assert (ids[0] == "0x1da31000") == (device == "gaudi")
    assert "emulated" in text


def test_the_list_as_deepspeed_and_hccl_demo_read_it():
    text = hl_smi("-L")
    assert re.findall(r"Module ID\s+:\s+(\d+)", text) == ["0"]
    # hccl_demo pastes these lines side by side and takes the words 4 and 8.
    lines = {
        name: next(x for x in text.splitlines() if name in x) for name in ("Module ID", "Bus Id")
    }
    words = f"{lines['Module ID']}\t{lines['Bus Id']}".split()
    assert (words[3], words[7]) == ("0", "0000:00:00.0")


def test_the_log_as_vllms_collect_env_reads_it():
    lines = [line.strip("\t") for line in hl_smi("-q", "-d", "PRODUCT").splitlines()]
    found = [m[1] for line in lines if (m := re.match(r"Product Name.+?: (.+)", line))]
    count = [m[1] for line in lines if (m := re.match(r"Attached AIPs.+?: (\d+)", line))]
    driver = [m[1] for line in lines if (m := re.match(r"Driver Version.+?: (.+)", line))]
    assert (found, count) == (["HL-225"], ["1"])
    assert driver[0].endswith("-emulated")
    assert not any("Memory Usage" in line for line in lines)


def test_csv_as_tgi_accelerate_and_tutorials_read_it():
    fields = "name,bus_id,driver_version,temperature.aip,utilization.aip,memory.total,memory.free"
    header, only = hl_smi(f"--query-aip={fields}", "--format=csv").splitlines()
    assert header.split(", ")[:3] == ["name", "bus_id", "driver_version"]
    assert header.split(", ")[5] == "memory.total [MiB]"
    assert len(only.split(", ")) == len(fields.split(","))
    assert only.split(", ")[3] == "N/A"
    assert hl_smi("-Q", "module_id", "-f", "csv,noheader").strip() == "0"
    # a tutorial splits at ", " and compares the first word with the index
    assert hl_smi("-Q", "index,module_id", "-f", "csv").splitlines()[1] == "0, 0"
    assert hl_smi("--query-gpu=name", "--format=csv,noheader").count("\n") == 1


def test_units_are_left_out_on_request():
    assert re.fullmatch(r"\d+ MiB", rows("memory.total")[0][0])
    assert re.fullmatch(r"\d+", rows("memory.total", form="csv,noheader,nounits")[0][0])


def listed(table: str) -> list[tuple[int, int]]:
    """The process and its MiB of each row of the table's processes."""
    found = re.findall(r"^\|\s+\d+\s+(\d+)\s+.*?\s+(\d+)MiB\s+\|$", table, re.M)
    return [(int(pid), int(used)) for pid, used in found]


def test_memory_is_what_processes_have_reserved():
    with user("idle") as (pid, reserved):
        assert reserved >= 16 * MIB
        table = hl_smi(**OWN)
        assert listed(table) == [(pid, reserved // MIB)]
        total = re.search(r"(\d+)MiB / \d+MiB", table)
        assert total is not None
        assert int(total[1]) == reserved // MIB
        query = rows("memory.used,memory.free,memory.total", form="csv,noheader,nounits", **OWN)
        used_of_all, free, whole = (int(cell) for cell in query[0])
        assert used_of_all == reserved // MIB
        assert abs(used_of_all + free - whole) <= 1
        assert rows("module_id", **OWN) == [[OWN["HABANA_VISIBLE_MODULES"]]]
        # The process is not on the other modules.
        assert pid not in [process for process, _ in listed(hl_smi())]
    assert listed(hl_smi(**OWN)) == []


def test_a_host_has_eight_modules():
    assert rows("index", "module_id", "bus_id", HPU_EMULATOR_MODULES="") == [
        [str(i), str(i), f"0000:{i:02x}:00.0"] for i in range(8)
    ]


def test_utilization_tells_a_busy_process_from_an_idle_one():
    def percent(pid: int) -> int:
        (own,) = [p.utilization for p in processes(0.1) if p.pid == pid]
        return own

    with user("idle") as (pid, _):
        wait_until(lambda: percent(pid) == 0)  # its first product may still run
    with user("busy") as (pid, _):
        wait_until(lambda: percent(pid) >= 50)
        assert int(rows("utilization.aip", form="csv,noheader,nounits", **OWN)[0][0]) > 0


def test_a_forked_child_does_not_count_its_parents_memory_again():
    code = """
import os, subprocess, sys, time, torch, habana_frameworks.torch
x = torch.ones(1 << 22, device="hpu").sum().item()
r, w = os.pipe()
if (child := os.fork()) == 0:
    os.close(w)
    os.read(r, 1)
    os._exit(0)
command = [sys.executable, "-m", "habana_frameworks.hl_smi"]
print(subprocess.run(command, capture_output=True, text=True).stdout)
os.close(w)
os.waitpid(child, 0)
print("pids", os.getpid(), child)
"""
    text = output_of(code).stdout
    parent, child = map(int, text.split()[-2:])
    pids = [pid for pid, _ in listed(text)]
    assert pids.count(parent) == 1
    assert child not in pids


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-Q", "name,speed,colour", "-f", "csv"), ["speed,colour", "utilization.aip", "name"]),
        (("-Q", "name"), ["-f csv[,noheader][,nounits]"]),
        (("-Q", "name", "-f", "json"), ["-f csv[,noheader][,nounits]", "json"]),
        (("-i", "0000:99:00.0"), ["0000:99:00.0", "0000:00:00.0"]),
    ],
)
def test_what_it_does_not_know_is_named(arguments, words):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    for word in words:
        assert word in done.stderr


def test_a_device_that_cannot_be_emulated_is_refused():
    done = run(HPU_EMULATOR_DEVICE="gaudi9")
    assert done.returncode == 1
    assert "synInitialize" in done.stderr
    assert "gaudi9" in done.stderr


def test_with_another_library_the_next_command_on_the_path_answers(tmp_path):
    other = tmp_path / "hl-smi"
    other.write_text('#!/bin/sh\necho "Intel\'s: $@"\n')
    other.chmod(0o755)
    env = {"HPU_SYNAPSE_LIBRARY": "libc.so.6"}
    assert run("-L", PATH=str(tmp_path), **env).stdout == "Intel's: -L\n"
    done = run("-L", **env)
    assert done.returncode == 1
    assert "libc.so.6 is not the emulated device" in done.stderr


def test_it_imports_no_torch():
    code = (
        "import sys; sys.argv = ['hl-smi', '-Q', 'name', '-f', 'csv']\n"
        "from habana_frameworks.hl_smi import main\n"
        "assert main() == 0\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    assert output_of(code, fresh=True).stdout.splitlines()[-1] == "False False"
