"""lightning-habana on hpu: fit, validation and checkpoints in one form after the other.

run.py [--list] [CASE ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cases import Case, expect, run  # noqa: E402

_FORMS = {"f32": {}, "bf16": {}, "compiled": {}, "lazy": {"PT_HPU_LAZY_MODE": "1"}, "ranks": {}}


def _fell(output: str) -> None:
    expect("validation loss" in output, "the program did not say its losses")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        program = HERE / "fit.py"
        cases = [Case(f, [program, f, folder], _fell, None, v) for f, v in _FORMS.items()]
        return run(cases, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
