"""hpu-compile: every command as text and as JSON, and its errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from conftest import stop_daemon
from eventually import wait_until
from helpers import fresh_process
from processes import suspend

from habana_frameworks.torch import cli
from habana_frameworks.torch.cli import tables
from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.service import service


@pytest.fixture(scope="module")
def keys() -> list[str]:
    """Front-end keys of two stored programs."""
    stored = []
    for rows in (3, 5):
        fresh_process()
        compiled = torch.compile(lambda x: x.tanh() + 0.125, backend="hpu_backend", dynamic=False)
        with torch.no_grad():
            compiled(torch.ones(rows, 2, device="hpu"))
        graph = report().graphs[-1]
        assert graph.origin != "eager", graph.reason
        stored.append(graph.front_end_key)
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
    ours = [row for row in rows if set(row["front_end_keys"]) & set(keys)]
    assert {key for row in ours for key in row["front_end_keys"]} >= set(keys)
    assert all(row["recipes"] >= 1 and row["bytes"] > 0 and row["age_s"] >= 0 for row in ours)
    assert all(re.fullmatch(r"graph_\d+ \S+ \(\w+\.py:\d+\)", row["label"]) for row in ours)
    created = [row["created"] for row in rows]
    assert created == sorted(created, reverse=True)
    assert len(run_json(capsys, "ls", "--limit", "1")) == 1


def run_affine() -> None:
    class Affine(torch.nn.Module):
        def forward(self, x):
            return x * 3 + 0.25

    fresh_process()
    service.forget_programs()
    compiled = torch.compile(Affine(), backend="hpu_backend", dynamic=False)
    with torch.no_grad():
        compiled(torch.ones(6, 2, device="hpu"))


def test_ls_says_what_a_program_is_of_and_counts_its_hits(capsys, monkeypatch):
    run_affine()
    key = report().graphs[-1].front_end_key

    monkeypatch.setenv("COLUMNS", "110")

    def row():
        return next(r for r in run_json(capsys, "ls") if key in r["front_end_keys"])

    before = row()
    assert re.fullmatch(r"graph_0 Affine \(test_cli\.py:\d+\)", before["label"])
    run_affine()
    run_affine()
    run_json(capsys, "show", key)  # looking at a program does not count as a use
    assert row()["hits"] == before["hits"] + 2
    assert cli.main(["ls"]) == 0
    text = capsys.readouterr().out
    head = next(line for line in text.splitlines() if "program of" in line)
    assert head.split() == [
        "key", "program", "of", "age", "size", "hits", "recipes", "compiled", "in"
    ]  # fmt: skip
    line = next(line for line in text.splitlines() if "Affine (test" in line)
    assert "graph_0" not in line
    assert text.endswith("hits: how often the daemon handed it out since it started\n")


def test_show_prints_the_program(keys, capsys):
    assert cli.main(["show", keys[0][:12]]) == 0
    text = capsys.readouterr().out
    assert "launch" in text
    shown = run_json(capsys, "show", keys[0])
    assert shown["aliases"][keys[0]].startswith("graph_")
    assert run_json(capsys, "show", shown["key"])["text"] == shown["text"]


def test_explain_names_the_factor_that_moved(keys, capsys):
    answer = run_json(capsys, "explain", keys[1], keys[0])
    changed = {d["factor"]: (d["ours"], d["theirs"]) for d in answer["differences"]}
    assert changed["input 0"] == ("float32[5, 2]{2, 1}@hpu", "float32[3, 2]{2, 1}@hpu")
    assert "graph" not in changed


def test_explain_takes_either_key_and_shows_both(keys, capsys):
    first, second = (run_json(capsys, "explain", key) for key in keys)
    assert first["front_end_key"] == keys[0]
    by_content = run_json(capsys, "explain", first["content_key"], second["content_key"])
    assert by_content["content_key"] == first["content_key"]
    assert by_content["front_end_key"] == keys[0]
    assert by_content["factors"] == first["factors"]
    assert by_content["content_factors"]["device"] == "gaudi2"
    assert by_content["nearest"] == second["content_key"]
    assert [d["factor"] for d in by_content["differences"]] == ["graph"]
    assert cli.main(["explain", keys[0], first["content_key"]]) == 1
    assert "one key is a content key, the other a front-end key" in capsys.readouterr().err


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


def test_tables_are_for_people(keys, capsys, monkeypatch):
    """Keys are cut as git does, without Python values or unix times; the key that differs is shown
    beside."""
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.main(["ls"]) == 0
    listed = capsys.readouterr().out
    (line,) = [line for line in listed.splitlines() if keys[0][:12] in line]
    assert "gaudi2 x86-64" in line
    assert "KiB" in line
    assert keys[0] not in listed
    assert cli.main(["show", keys[0][:8]]) == 0
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.split()[:1] == ["made"]]
    assert line.split()[1].startswith(time.strftime("%Y-"))
    assert "('" not in shown
    assert not {"None", "True", "False"} & set(shown.split())
    assert cli.main(["explain", keys[1][:8], keys[0][:8]]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "input 0" in line]
    assert 0 < line.index("float32[5, 2]") < line.index("float32[3, 2]")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bytes", 1023, "1023 B"),
        ("memory.bytes", 1536, "1.5 KiB"),
        ("get_bytes", 10 << 30, "10.0 GiB"),
        ("compile_ms", 117.9, "117.9 ms"),
        ("compile_ms", 12_345.0, "12.3 s"),
        ("uptime_s", 59, "59 s"),
        ("uptime_s", 7200, "2 h"),
        ("running", True, "true"),
        ("key", "ab" * 32, "ab" * 6),
        ("factor", "x" + "0" * 64, "x" + "0" * 12),
    ],
)
def test_cells(name, value, text):
    assert tables.cell(name, value) == text


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
    """Runs a command against a cache folder of its own; returns exit code, output and errors."""
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_hung_daemon_is_named_with_its_remedy(private_cache, outcome):
    assert outcome("stats")[0] == 0
    code, out, _ = outcome("status", "--json")
    answer = json.loads(out)
    assert code == 0 and "problem" not in answer
    assert answer["log"] == str(private_cache / "server.log")
    pid = answer["pid"]
    suspend(pid)
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


def test_a_daemon_without_its_socket_is_found_named_and_stopped(private_cache, outcome):
    assert outcome("stats")[0] == 0
    pid = json.loads(outcome("status", "--json")[1])["pid"]
    suspend(pid)  # it would listen again within a second
    try:
        (private_cache / "run/server.sock").unlink()
        code, out, _ = outcome("status", "--json")
        answer = json.loads(out)
        assert (code, answer["running"], answer["pid"]) == (1, True, pid)
        assert f"nothing listens at {private_cache}/run/server.sock" in answer["problem"]
        assert f"kill -9 {pid}" in answer["problem"]
        threading.Timer(3, os.kill, (pid, signal.SIGCONT)).start()
        code, out, _ = outcome("stop", "--json")
        assert (code, json.loads(out)) == (0, {"stopped": True, "pid": pid})
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert not json.loads(outcome("status", "--json")[1])["running"]


def test_a_removed_socket_is_no_problem_for_long(private_cache, outcome):
    assert outcome("stats")[0] == 0
    pid = json.loads(outcome("status", "--json")[1])["pid"]
    (private_cache / "run/server.sock").unlink()
    code, out, _ = outcome("status", "--json")
    assert (code, json.loads(out)["pid"]) == (0, pid)
    (private_cache / "run/server.sock").unlink()
    assert json.loads(outcome("stop", "--json")[1]) == {"stopped": True, "pid": pid}


def test_a_removed_store_is_a_problem_until_the_daemon_has_left(private_cache, outcome):
    assert outcome("stats")[0] == 0
    pid = json.loads(outcome("status", "--json")[1])["pid"]
    suspend(pid)
    shutil.rmtree(private_cache / "store")
    # The daemon goes on while it is asked.
    threading.Timer(1, os.kill, (pid, signal.SIGCONT)).start()
    code, out, _ = outcome("status", "--json")
    answer = json.loads(out)
    # The question may come before or after the daemon has noticed.
    assert not answer["running"] or (code == 1 and "was removed while" in answer["problem"])
    wait_until(lambda: not json.loads(outcome("status", "--json")[1])["running"])
    log = Path(answer["log"]).read_text()
    assert f"the store in {private_cache}/store was removed while it was open" in log
    assert outcome("stats")[0] == 0
    assert "problem" not in json.loads(outcome("status", "--json")[1])


def test_a_daemon_that_leaves_while_it_is_asked_does_not_run(monkeypatch, private_cache, outcome):
    assert outcome("stats")[0] == 0
    find = cli.daemon.find_daemon

    def find_and_stop():
        running = find()
        stop_daemon(private_cache)
        return running

    monkeypatch.setattr(cli.daemon, "find_daemon", find_and_stop)
    code, out, _ = outcome("status", "--json")
    assert (code, json.loads(out)["running"]) == (0, False)


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
