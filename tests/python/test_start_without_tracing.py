"""Starts without tracing, each in fresh processes: a hit where nothing differs, a trace and a right
answer where one thing does. Processes of one test share a cache folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).parent / "start_process.py"
DIFFERENCES = [
    "factor",
    "gain",
    "default",
    "slope",
    "width",
    "patched-method",
    "patched-function",
    "patched-helper",
    "rows",
    "option",
    "hook",
    "dtype",
    "frozen-weight",
    "train",
]


def process(variant, cache):
    done = subprocess.run(
        [sys.executable, str(DRIVER), variant],
        env={**os.environ, "HPU_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("variant", "frames"), [("base", 1), ("break", 2), ("train", 1)])
def test_the_second_process_does_not_trace(private_cache, variant, frames):
    first, second = (process(variant, private_cache) for _ in range(2))
    assert first["traced"] == [True] * frames and first["kept"] == [""] * frames
    assert second["traced"] == [False] * frames
    assert not any("not traced" in line for line in first["report"])
    assert len(second["report"]) == frames
    assert all(": hit, store, not traced, key " in line for line in second["report"])
    assert first["right"] and second["right"]


def test_a_miss_after_a_load_is_traced(private_cache):
    process("base", private_cache)
    answer = process("miss-after", private_cache)
    assert answer["traced"] == [False, True] and answer["right"]


def test_what_others_signed_is_not_read(private_cache):
    process("base", private_cache)
    (private_cache / "start" / "key").write_bytes(bytes(32))
    answer = process("base", private_cache)
    assert answer["traced"] == [True] and answer["right"]


def test_a_folder_open_to_others_is_not_read(private_cache):
    process("base", private_cache)
    (private_cache / "start").chmod(0o755)
    answer = process("base", private_cache)
    assert answer["traced"] == [True] and answer["right"]
    assert "is open to other users" in answer["reasons"][0]


@pytest.mark.slow
def test_one_difference_is_a_trace_and_never_a_wrong_answer(private_cache):
    process("base", private_cache)
    answers = {variant: process(variant, private_cache) for variant in DIFFERENCES}
    assert [v for v, answer in answers.items() if not answer["right"]] == []
    assert [v for v, answer in answers.items() if not answer["traced"][0]] == []
    assert process("base", private_cache)["traced"] == [False]
