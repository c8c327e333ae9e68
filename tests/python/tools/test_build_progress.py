"""tools/build_progress.py shows a remaining time that does not depend on the machine's speed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import build_progress

TOOL = ROOT / "tools/build_progress.py"
TIMES = {"a.o": 2.0, "b.o": 8.0, "c.o": 20.0, "lib.so": 1.0}


def compiled(*outputs: str) -> list[str]:
    return [f"Building CXX object {output}" for output in outputs]


@pytest.mark.parametrize("speed", [0.25, 1.0, 8.0])
def test_time_left_is_that_of_a_machine_of_any_speed(speed):
    commands = [*compiled("a.o", "b.o", "c.o"), "Linking CXX shared library lib.so"]
    progress = build_progress.Progress(commands, TIMES)
    passed = 0.0
    for command, seconds in zip(commands, TIMES.values(), strict=True):
        passed += seconds / speed
        left = progress.seconds_left(command, passed)
        assert left == pytest.approx(31.0 / speed - passed)


def test_an_object_that_the_list_lacks_takes_as_long_as_others_and_anything_else_nothing():
    progress = build_progress.Progress([], TIMES)
    assert progress.expected("Building CXX object new.o") == 10.0
    assert progress.expected("Linking CXX executable new") == build_progress.SHORT_S
    assert progress.expected("op table") == build_progress.SHORT_S


def test_commands_that_were_not_planned_leave_no_time_below_zero():
    progress = build_progress.Progress(compiled("a.o"), TIMES)
    assert progress.seconds_left(*compiled("c.o"), 10.0) == 0.0


def test_the_list_has_every_object_once_and_no_time_of_zero():
    text = build_progress.TIMES.read_text(encoding="utf-8")
    times = build_progress.read_times(text)
    assert len(times) == sum(not line.startswith("#") for line in text.splitlines())
    assert min(times.values()) > 0


def run(folder, rules: str) -> subprocess.CompletedProcess[str]:
    (folder / "build.ninja").write_text(
        f"rule make\n command = $do\n description = Building CXX object $out\n{rules}"
    )
    ninja = str(Path(sys.executable).with_name("ninja"))
    return subprocess.run(
        [sys.executable, str(TOOL), ninja, "-C", str(folder), "-j1"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_command_is_shown_with_the_time_left_and_its_output_as_it_is(tmp_path):
    shown = run(
        tmp_path,
        "build one.o: make\n do = echo a warning; touch one.o\n"
        "build two.o: make one.o\n do = touch two.o\n",
    )
    assert shown.returncode == 0
    first, warning, second = shown.stdout.splitlines()[-3:]
    assert first.startswith("[1 of 2, 00:00, left about 00:00] Building CXX object one.o")
    assert warning == "a warning"
    assert second == "[2 of 2, 00:00, left about 00:00] Building CXX object two.o"


def test_a_failure_is_ninjas(tmp_path):
    shown = run(tmp_path, "build one.o: make\n do = echo an error; exit 3\n")
    assert shown.returncode == 3
    assert "FAILED:" in shown.stdout
    assert "an error" in shown.stdout


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "00:00"), (61, "01:01"), (3725, "1:02:05")])
def test_clock(seconds, shown):
    assert build_progress.clock(seconds) == shown
