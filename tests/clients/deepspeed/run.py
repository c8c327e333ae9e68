"""DeepSpeed on hpu: the losses of its forms of training equal those of its CPU accelerator.

run.py [--list] [CASE ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cases import Case, expect, run  # noqa: E402
from forms import FORMS  # noqa: E402


def _compared(output: str) -> None:
    expect("largest difference" in output, "the program compared nothing")


def main(arguments: list[str]) -> int:
    program = HERE / "compare.py"
    cases = [Case(form, [program, form], _compared) for form in FORMS]
    # Streams that the program does not order would be named, and so would the host's touches.
    cases.append(Case("strict", [program, "zero-3"], _compared, variables={"EMULATOR_STRICT": "1"}))
    return run(cases, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
