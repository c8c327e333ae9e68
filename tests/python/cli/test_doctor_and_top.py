"""hpu-compile doctor and top, and what status reports about settings."""

from __future__ import annotations

import os
import re

import pytest
from conftest import stop_daemon
from stored_programs import ask, refusal

from habana_frameworks.torch import cli
from habana_frameworks.torch.dynamo.programs.service import service


def test_doctor_walks_the_whole_way(stored, capsys):
    answer = ask(capsys, "doctor")
    assert [s["step"] for s in answer["steps"]] == [
        *("native parts", "settings", "device", "cache folder", "daemon", "store", "compile"),
        "servers",
    ]
    assert {s["result"] for s in answer["steps"]} == {"good"}


def test_doctor_names_the_step_that_fails(stored, capsys, monkeypatch):
    monkeypatch.setenv("HPU_SYNAPSE_LIBRARY", "/nowhere/libSynapse.so")
    answer = ask(capsys, "doctor", code=1)
    assert [s["result"] for s in answer["steps"]] == ["good", "bad"] + ["not tried"] * 5
    assert answer["problem"].startswith(
        "settings: HPU_SYNAPSE_LIBRARY=/nowhere/libSynapse.so is no file"
    )
    assert answer["steps"][1]["cure"].startswith("name Intel's libSynapse.so, or unset it")
    status = ask(capsys, "status", code=1)
    assert "HPU_SYNAPSE_LIBRARY=/nowhere/libSynapse.so is no file" in status["problem"]


def test_doctor_asks_the_servers(stored, capsys, monkeypatch, private_cache):
    stop_daemon(private_cache)
    monkeypatch.setenv(
        "HPU_COMPILE_SERVER", "tcp://127.0.0.1:9,tls://name.that.is.nowhere.invalid:8471"
    )
    service.reset()
    answer = ask(capsys, "doctor", code=1)
    by_name = {s["step"]: s for s in answer["steps"]}
    closed = by_name["server tcp://127.0.0.1:9"]
    assert closed["result"] == "bad" and "127.0.0.1:9" in closed["detail"]
    nowhere = by_name["server tls://name.that.is.nowhere.invalid:8471"]
    assert nowhere["result"] == "bad" and "has no address" in nowhere["detail"]
    assert nowhere["cure"] == "mend DNS, or the name"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_status_names_a_cache_folder_of_another_user(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HPU_CACHE_DIR", str(tmp_path))
    os.chown(tmp_path, 4711, 4711)
    answer = ask(capsys, "status", code=1)
    assert f"the cache folder {tmp_path} belongs to user 4711" in answer["problem"]


def test_top_counts_what_happens(stored, capsys):
    figures = ask(capsys, "top", "--interval", "0.05")["daemon"]
    assert figures["programs"] == 3 and figures["waiting"] == 0
    assert cli.main(["top", "--once", "--interval", "0.05"]) == 0
    assert re.search(r"programs +3 ", capsys.readouterr().out)


def test_top_reads_metrics_pages(stored, capsys, tmp_path):
    page = tmp_path / "metrics"
    page.write_text(
        "# HELP hpu_rocksdb_entries x\n# TYPE hpu_rocksdb_entries gauge\nhpu_rocksdb_entries 17\n"
        'hpu_call_seconds_bucket{door="unix",le="1"} 4\nhpu_compile_failed_total 2\n'
    )
    figures = ask(capsys, "top", page.as_uri(), "--interval", "0.01")
    (found,) = figures.values()
    assert (found["programs"], found["failed"]) == (17, 2)
    error = refusal(capsys, "top", "http://127.0.0.1:9/metrics", "--once")
    assert "http://127.0.0.1:9/metrics: " in error
