"""`import torchvision` and `import habana_dataloader` beside a torchvision whose operators cannot
be loaded, beside a broken one, and beside none."""

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
    from habana_dataloader.vision import torchvision
from habana_frameworks.torch.internal.vision import _declared
texts = [str(w.message) for w in caught if "HabanaDataLoader" in str(w.message)]
print(torchvision is not None, len(_declared), texts)
"""

# Nothing else has imported torch before.
WITHOUT_LOADER = """
import torchvision
print("torch" in dir(torchvision._meta_registrations))
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
    output = run_beside(tmp_path, code, PROGRAM)
    assert output.replace('"', "'") == printed.replace("\\'", "'").replace('"', "'")


def test_torchvision_is_imported_without_the_loader(tmp_path):
    assert run_beside(tmp_path, WITHOUT_OPERATORS, WITHOUT_LOADER) == "True"


def run_beside(folder, code, program):
    """Returns what `program` prints where `code` is the only torchvision."""
    if code is not None:
        (folder / "torchvision").mkdir()
        (folder / "torchvision/__init__.py").write_text(
            "import torch\nfrom torchvision import _meta_registrations\n"
        )
        (folder / "torchvision/_meta_registrations.py").write_text(code)
    others = [path for path in sys.path if not os.path.isdir(os.path.join(path, "torchvision"))]
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *others])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
