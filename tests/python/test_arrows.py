"""tools/check_arrows.py reports what breaks the include arrows."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_arrows


def include(*paths: str) -> str:
    return "".join(f'#include "{path}"\n' for path in paths)


def test_folders_that_include_one_way_are_clean():
    files = {
        "emulator/api/api.cc": include("emulator/device/device.h"),
        "emulator/device/device.h": include("emulator/memory/heap.h", "base/log.h"),
        "emulator/library.cc": include("emulator/api/api.h"),
    }
    assert check_arrows.circles(files) == []


def test_a_circle_of_three_folders_is_reported_once_with_its_includes():
    files = {
        "emulator/api/api.cc": include("emulator/device/device.h"),
        "emulator/device/device.h": include("base/log.h", "emulator/memory/heap.h"),
        "emulator/memory/heap.h": include("emulator/api/api.h"),
    }
    assert check_arrows.circles(files) == [
        "circle of folders: emulator/api -> emulator/device -> emulator/memory -> emulator/api "
        "(emulator/api/api.cc:1, emulator/device/device.h:2, emulator/memory/heap.h:1)"
    ]


def test_a_folder_and_its_own_sub_folder_are_a_circle():
    files = {
        "emulator/status.h": include("emulator/api/entry.h"),
        "emulator/api/entry.h": include("emulator/status.h"),
    }
    assert check_arrows.circles(files) == [
        "circle of folders: emulator -> emulator/api -> emulator "
        "(emulator/status.h:1, emulator/api/entry.h:1)"
    ]


def test_folders_are_a_circle_through_different_sub_folders():
    files = {
        "emulator/api/calls/call.cc": include("emulator/device/heap/heap.h"),
        "emulator/device/queue/queue.cc": include("emulator/api/types/types.h"),
    }
    assert check_arrows.circles(files) == [
        "circle of folders: emulator/api -> emulator/device -> emulator/api "
        "(emulator/api/calls/call.cc:1, emulator/device/queue/queue.cc:1)"
    ]


def test_rows_of_sub_folders_are_kept():
    text = include("graph_compiler/ir/loop_graph.h", "graph_compiler/import/importer.h")
    assert check_arrows.violations("graph_compiler/plan/schedule.cc", text) == [
        "graph_compiler/plan/schedule.cc:2: graph_compiler/plan may not include "
        "graph_compiler/import/importer.h"
    ]
