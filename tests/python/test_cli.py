"""hpu-compile: every command as text and as JSON, and its errors."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from helpers import fresh_process

from habana_frameworks.torch import cli
from habana_frameworks.torch.dynamo import report


@pytest.fixture(scope="module")
def keys() -> list[str]:
    """Keys of two stored programs."""
    stored = []
    for rows in (3, 5):
        fresh_process()
        compiled = torch.compile(lambda x: x.tanh() + 0.125, backend="hpu_backend", dynamic=False)
        with torch.no_grad():
            compiled(torch.ones(rows, 2, device="hpu"))
        graph = report().graphs[-1]
        assert graph.origin != "eager", graph.reason
        stored.append(graph.key)
    return stored


def run_json(capsys, *arguments: str):
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_status(keys, capsys):
    answer = run_json(capsys, "status")
    assert answer["running"] is True
    assert answer["pid"] > 0
    assert len(answer["build_id"]) == 64


def test_ls_is_newest_first(keys, capsys):
    rows = run_json(capsys, "ls")
    listed = [row["key"] for row in rows]
    assert set(keys) <= set(listed)
    assert all(row["recipes"] >= 1 and row["bytes"] > 0 for row in rows if row["key"] in keys)
    assert len(run_json(capsys, "ls", "--limit", "1")) == 1


def test_show_prints_the_program(keys, capsys):
    assert cli.main(["show", keys[0][:12]]) == 0
    text = capsys.readouterr().out
    assert "launch" in text
    assert run_json(capsys, "show", keys[0])["key"] == keys[0]


def test_explain_names_the_factor_that_moved(keys, capsys):
    answer = run_json(capsys, "explain", keys[1], keys[0])
    changed = {d["factor"]: (d["ours"], d["theirs"]) for d in answer["differences"]}
    assert changed["input 0"] == ("float32[5, 2]{2, 1}@hpu", "float32[3, 2]{2, 1}@hpu")
    assert "graph" not in changed


def test_stats(keys, capsys):
    answer = run_json(capsys, "stats")
    assert answer["compile.compiled"] >= 2


def test_options_lists_the_table(capsys):
    names = {row["option"] for row in run_json(capsys, "options")}
    assert "use_eager_fallback" in names


@pytest.mark.parametrize("command", ["status", "ls", "stats", "options"])
def test_tables(keys, capsys, command):
    assert cli.main([command]) == 0
    assert capsys.readouterr().out.strip()


def test_unknown_key(keys, capsys):
    assert cli.main(["show", "zz"]) == 1
    assert "no stored program has a key that starts with 'zz'" in capsys.readouterr().err


def test_ambiguous_key(keys, capsys):
    assert cli.main(["show", ""]) == 1
    assert "ambiguous" in capsys.readouterr().err


def test_unknown_command(capsys):
    with pytest.raises(SystemExit):
        cli.main(["fly"])
    assert "invalid choice: 'fly'" in capsys.readouterr().err


@pytest.fixture
def outcome(private_cache, monkeypatch, capsys):
    """Runs a command against a cache folder of its own: exit code, output and errors."""
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def stop(pid: int) -> None:
    """SIGSTOP, and back when every thread has stopped: one that still runs would answer."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 10
    while any(
        path.read_text().rpartition(")")[2].split()[0] != "T"
        for path in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        assert time.monotonic() < deadline, "the daemon does not stop"
        time.sleep(0.001)


def test_a_hung_daemon_is_named_with_its_remedy(private_cache, outcome):
    assert outcome("stats")[0] == 0
    code, out, _ = outcome("status", "--json")
    answer = json.loads(out)
    assert code == 0 and "problem" not in answer
    assert answer["log"] == str(private_cache / "server.log")
    pid = answer["pid"]
    stop(pid)
    try:
        code, out, _ = outcome("status", "--json")
        answer = json.loads(out)
        assert (code, answer["running"], answer["pid"]) == (1, True, pid)
        assert f"(pid {pid}) does not answer" in answer["problem"]
        assert f"kill -9 {pid}" in answer["problem"]
        code, _, errors = outcome("stop")
        assert code == 1 and f"kill -9 {pid}" in errors and "server.log" in errors
    finally:
        os.kill(pid, signal.SIGCONT)
    assert outcome("stop")[0] == 0
    assert not json.loads(outcome("status", "--json")[1])["running"]


def test_a_store_that_keeps_nothing_is_a_problem(private_cache, outcome):
    (private_cache / "store").mkdir()
    (private_cache / "store").chmod(0o777)
    assert outcome("stats")[0] == 0
    code, out, _ = outcome("status", "--json")
    answer = json.loads(out)
    assert code == 1 and "kept in memory only" in answer["problem"]
    assert "mode 777) can be written by others" in Path(answer["log"]).read_text()


def test_the_daemon_is_found_where_the_socket_path_is_too_long(private_cache, outcome, monkeypatch):
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache / ("long" * 25)))
    try:
        assert outcome("stats")[0] == 0
        assert json.loads(outcome("status", "--json")[1])["running"] is True
    finally:
        assert json.loads(outcome("stop", "--json")[1])["stopped"] is True


def test_a_wrong_log_level_is_told_by_name(outcome, monkeypatch):
    monkeypatch.setenv("HPU_SERVER_LOG_LEVEL", "abc")
    code, _, errors = outcome("stats")
    assert code == 1
    assert "HPU_SERVER_LOG_LEVEL=abc is not a number from 0 (trace) to 6 (off)" in errors


def test_stop_without_a_daemon(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HPU_CACHE_DIR", str(tmp_path))
    assert run_json(capsys, "stop") == {"stopped": False, "reason": "no daemon is running"}
