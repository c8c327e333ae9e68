"""tools/check_arrows.py reports includes and imports that break the arrows."""

from __future__ import annotations

import itertools
import sys

from paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import check_arrows
import python_arrows


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


def test_unstable_headers_of_pytorch_are_included_by_one_header_only():
    stable = ("ATen/ATen.h", "torch/library.h", "c10/core/ScalarType.h")
    unstable = (
        "torch/csrc/Dtype.h",
        "ATen/EmptyTensor.h",
        "ATen/ops/view_native.h",
        "c10/util/SmallVector.h",
        "kineto/libkineto.h",
    )
    owner = check_arrows.UNSTABLE_TORCH
    assert check_arrows.violations(owner, include(*stable, *unstable)) == []
    for path in ("backend/torch/module.cc", "backend/torch/pytorch/another.h"):
        assert check_arrows.violations(path, include(*stable, owner)) == []
        assert check_arrows.violations(path, include(*stable, *unstable)) == [
            f"{path}:{number}: only {owner} may include {header}"
            for number, header in enumerate(unstable, 4)
        ]
    angle = "#include <ATen/Parallel.h>\n"
    assert len(check_arrows.violations("backend/torch/module.cc", angle)) == 1


def test_the_header_of_what_is_unstable_says_what_is_used_of_each():
    lines = (ROOT / check_arrows.UNSTABLE_TORCH).read_text(encoding="utf-8").splitlines()
    for before, line in itertools.pairwise(lines):
        assert not line.startswith("#include") or before.startswith("// "), line


def test_rows_of_python_folders_are_kept():
    files = {
        "dynamo/capture/inputs.py": "from ..programs import service\nfrom ... import native\n",
        "dynamo/programs/service.py": "def f():\n    from ...report.page import to_frame\n",
        "new/room.py": "",
        "native.py": "",
        "report/page.py": "import habana_frameworks.torch.dynamo.records.records\n",
        "dynamo/records/records.py": "",
    }
    root = "python/habana_frameworks/torch"
    assert python_arrows.violations(files) == [
        f"{root}/dynamo/capture/inputs.py:1: dynamo/capture may not import "
        "dynamo/programs/service.py",
        f"{root}/dynamo/programs/service.py:2: dynamo/programs may not import report/page.py",
        f"{root}/new/room.py: its folder has no row in tools/python_arrows.py",
    ]


def test_packages_that_import_each_other_are_a_circle():
    files = {
        "dynamo/records/records.py": "from ...report import page\n",
        "report/page.py": "",
        "report/collect.py": "from habana_frameworks.torch.dynamo.records.records import Report\n",
    }
    root = "python/habana_frameworks/torch"
    assert python_arrows.circles(files) == [
        "circle of modules: dynamo -> report -> dynamo "
        f"({root}/dynamo/records/records.py:1, {root}/report/collect.py:1)"
    ]


def test_modules_of_one_folder_are_a_circle_even_by_an_import_in_a_function():
    files = {
        "warmup/report.py": "def f():\n    from .page import to_html\n",
        "warmup/page.py": "from .report import Report\n",
    }
    root = "python/habana_frameworks/torch"
    assert python_arrows.circles(files) == [
        "circle of modules: warmup/page.py -> warmup/report.py -> warmup/page.py "
        f"({root}/warmup/page.py:1, {root}/warmup/report.py:2)"
    ]


def test_the_face_of_a_package_may_import_what_imports_its_rooms():
    files = {
        "dynamo/__init__.py": "from ..report import page\n",
        "dynamo/records/records.py": "",
        "report/page.py": "from ..dynamo.records import records\n",
    }
    assert python_arrows.circles(files) == []
    assert python_arrows.violations(files) == []


def test_neighbours_do_not_import_each_other():
    files = {
        "python/habana_dataloader/copies.py": "import torch\nfrom . import loader\n",
        "python/habana_dataloader/loader.py": "def f():\n    import habana_frameworks.torch.hpu\n",
        "python/habana_frameworks/torch/hpu/x.py": "from habana_dataloader.loader import a\n",
        "python/habana_frameworks/mediapipe/pipeline/y.py": "from ..operators import a\n",
        "python/habana_frameworks/mediapipe/operators/z.py": "from habana_dataloader import a\n",
    }
    assert python_arrows.strangers(files) == [
        "python/habana_dataloader/loader.py:2: may not import habana_frameworks.torch.hpu",
        "python/habana_frameworks/mediapipe/pipeline/y.py:1: may not import "
        "habana_frameworks.mediapipe.operators.a",
        "python/habana_frameworks/torch/hpu/x.py:1: may not import habana_dataloader.loader.a",
    ]
