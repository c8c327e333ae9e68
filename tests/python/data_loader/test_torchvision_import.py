"""`import habana_dataloader` beside a torchvision whose operators cannot be loaded, beside a broken
one, and beside none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# As PyPI's torchvision beside PyTorch's CPU build: its library of operators is not loaded, and the
# import describes operators of it.
WITHOUT_OPERATORS = """
import torch
for name in ("nms", "qnms"):
    torch.library.register_fake("torchvision::" + name)(lambda boxes, scores, threshold: boxes)
"""
# As one whose operators are there.
WITH_OPERATORS = """
import torch
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from habana_dataloader.vision import _declared, torchvision
texts = [str(w.message) for w in caught if "HabanaDataLoader" in str(w.message)]
print(torchvision is not None, len(_declared), texts)
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (WITHOUT_OPERATORS, "True 1 []"),
        (WITH_OPERATORS + WITHOUT_OPERATORS, "True 0 []"),
        (
            "raise RuntimeError('other')",
            "False 0 ['torchvision is installed but cannot be imported, so HabanaDataLoader only "
            "loads as PyTorch\\'s DataLoader does: other']",
        ),
        (None, "False 0 []"),
    ],
    ids=["without operators", "with operators", "broken", "none"],
)
def test_import_of_torchvision(tmp_path, code, printed):
    if code is not None:
        (tmp_path / "torchvision").mkdir()
        (tmp_path / "torchvision/__init__.py").write_text(code)
    others = [path for path in sys.path if not os.path.isdir(os.path.join(path, "torchvision"))]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *others])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().replace('"', "'") == printed.replace("\\'", "'").replace('"', "'")
