"""Progress on standard error: a bar on a terminal, and what takes its place elsewhere."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr

import pytest

from habana_frameworks.torch.cli.progress import Progress
from habana_frameworks.torch.dynamo.records import progress as compile_progress
from habana_frameworks.torch.dynamo.records.progress import CompileProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(compile_progress, "_QUIET_S", 0)


def test_a_command_shows_numbers_on_a_terminal():
    with redirect_stderr(Terminal()) as stderr, Progress("verifying") as progress:
        progress(2, 5)
        progress(3, 5, "reading")
    assert "reading" in stderr.getvalue() and "3/5" in stderr.getvalue()


def test_a_command_shows_nothing_elsewhere():
    with redirect_stderr(io.StringIO()) as stderr, Progress("verifying") as progress:
        progress(2, 5)
    assert stderr.getvalue() == ""


@pytest.mark.parametrize("setting", ["auto", "on"])
def test_a_compilation_shows_its_stage_on_a_terminal(setting):
    with redirect_stderr(Terminal()) as stderr, CompileProgress("graph_0", setting) as progress:
        progress("fusion", 0, 0)
        progress("recipe", 1, 2)
    assert "compiling graph_0: recipe" in stderr.getvalue()


def test_a_compilation_writes_a_line_per_stage_elsewhere_if_it_is_asked_to():
    with redirect_stderr(io.StringIO()) as stderr, CompileProgress("graph_0", "on") as progress:
        progress("recipe", 0, 2)
        progress("recipe", 1, 2)
        progress("store", 0, 0)
    assert stderr.getvalue() == "hpu_backend: graph_0: recipe\nhpu_backend: graph_0: store\n"


@pytest.mark.parametrize(
    ("stream", "setting"), [(io.StringIO, "auto"), (io.StringIO, "off"), (Terminal, "off")]
)
def test_a_compilation_is_silent_elsewhere_and_where_it_is_off(stream, setting):
    with redirect_stderr(stream()) as stderr, CompileProgress("graph_0", setting) as progress:
        progress("recipe", 0, 2)
    assert stderr.getvalue() == ""


def test_a_short_compilation_shows_nothing(monkeypatch):
    monkeypatch.setattr(compile_progress, "_QUIET_S", 60)
    with redirect_stderr(Terminal()) as stderr, CompileProgress("graph_0", "on") as progress:
        progress("recipe", 0, 2)
    assert stderr.getvalue() == ""


def test_rich_is_not_imported_before_a_bar_is_shown():
    code = """
import sys
from habana_frameworks.torch.cli.progress import Progress
from habana_frameworks.torch.dynamo.records.progress import CompileProgress
with Progress("verifying") as progress:
    progress(1, 2)
with CompileProgress("graph_0", "on") as progress:
    progress("recipe", 0, 2)
assert not [name for name in sys.modules if name.partition(".")[0] == "rich"]
"""
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=120, check=True)
