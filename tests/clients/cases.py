"""Cases of a client's run.py: each is a program in a process of its own, whose output is checked.

    run.py [--list] [CASE ...]     some of the cases; without names, all

A case succeeds if its program does and the check of its output raises nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# A program that needs longer, on a loaded machine too, hangs.
_SECONDS = 1800


@dataclass(frozen=True)
class Case:
    name: str
    command: Sequence[str | Path]  # arguments of this environment's Python
    check: Callable[[str], None]  # given the output; raises AssertionError
    folder: Path | None = None  # where the program runs
    variables: Mapping[str, str] = field(default_factory=dict)


def _environment(case: Case) -> dict[str, str]:
    # Clients call programs of their environment (pip, hl-smi) by name. No hub can be asked.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    fixed = {"PATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **fixed, "PT_HPU_LAZY_MODE": "0", **case.variables}


def _failure(case: Case) -> str | None:
    command = [sys.executable, "-W", "ignore", *map(str, case.command)]
    try:
        done = subprocess.run(
            command,
            cwd=case.folder,
            env=_environment(case),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS} s"
    output = done.stdout.replace("\r", "\n")
    last = "\n".join(output.splitlines()[-40:])
    if done.returncode:
        return f"exit code {done.returncode}; its last lines are\n{last}"
    try:
        case.check(output)
    except AssertionError as error:
        return f"{error}; its last lines are\n{last}"
    return None


def run(cases: Sequence[Case], arguments: Sequence[str]) -> int:
    """The number of cases that failed. Arguments are those of the command line."""
    names = [case.name for case in cases]
    if "--list" in arguments:
        print("\n".join(names))
        return 0
    unknown = set(arguments) - set(names)
    if unknown:
        sys.exit(f"no case is named {', '.join(sorted(unknown))}; the cases are {', '.join(names)}")
    failed = 0
    for case in cases:
        if arguments and case.name not in arguments:
            continue
        start = time.monotonic()
        problem = _failure(case)
        failed += problem is not None
        verdict = "FAILED: " + problem if problem else "passed"
        print(f"{case.name}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
    return failed


def expect(condition: object, text: str) -> None:
    """Raises AssertionError with the text, also where Python ignores assert."""
    if not condition:
        raise AssertionError(text)
