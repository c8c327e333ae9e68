"""The tests of Intel's bridge for PyTorch on hpu, unchanged.

    run.py SOURCES [--share N] [--list] [SUITE ...]

SOURCES is the tree of HabanaAI/gaudi-pytorch-bridge, release 1.19.0. Of each suite one of N tests
runs (without --share all): a suite has 750 to 11,000. A suite succeeds if the part that passes is
at least the one below. Tests that only miss the name of a node in the text of a JIT graph, which
no compiler here makes, count neither as passed nor as failed. Files that cannot be imported are
printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent

# By suite: the mode in which it runs, its folder, and the least part that must pass.
SUITES = {
    "compile": ("compile", "compile", 0.90),
    "eager": ("eager", "eager", 0.75),
    "lazy": ("lazy", "lazy", 0.95),
    "any-eager": ("eager", "any_mode", 0.80),
    "any-lazy": ("lazy", "any_mode", 0.80),
    "any-compiled": ("compile", "any_mode", 0.80),
}
_TEXT = re.compile(r"not found in (the|generated) JIT IR")
_SECONDS_PER_TEST = 300  # one that needs longer, on a loaded machine too, hangs


def _outcomes(path: Path) -> dict[str, tuple[str, str]]:
    """By test: its outcome, "failed" if any of its phases failed, and the message of a failure."""
    found: dict[str, tuple[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, outcome, message = json.loads(line)
        if found.get(name, ("", ""))[0] != "failed":
            found[name] = (outcome, message)
    return found


def _failures(found: dict[str, tuple[str, str]]) -> Counter[str]:
    """How many tests failed, by file and message without its numbers."""
    counts: Counter[str] = Counter()
    for name, (outcome, message) in found.items():
        if outcome == "failed":
            short = re.sub(r"0x[0-9a-f]+|\d+", "N", message.replace("\n", " "))[:110]
            counts[f"{Path(name.partition('::')[0]).name}: {short}"] += 1
    return counts


def _run(suite: str, tests: Path, share: int, outcomes: Path) -> bool:
    mode, folder, least = SUITES[suite]
    options = (
        f"--mode {mode} --dut gaudi2 -q --tb no -p no:cacheprovider -p outcomes -n 2 --timeout"
    )
    command = [sys.executable, "-W", "ignore", "-m", "pytest", *options.split()]
    command += [str(_SECONDS_PER_TEST), "--continue-on-collection-errors", "."]
    with tempfile.TemporaryDirectory(prefix="bridge-tests-") as logs:
        variables = {
            "BRIDGE_FOLDER": folder,
            "BRIDGE_SHARE": str(share),
            "BRIDGE_OUTCOMES": str(outcomes),
            "HABANA_LOGS": logs,  # some files want it when they are imported
            "HPU_EMULATOR_MODULES": "1024",
            "PYTHONPATH": str(HERE),
        }
        done = subprocess.run(
            command, cwd=tests, env={**os.environ, **variables}, capture_output=True, text=True
        )
    unread = sorted({line for line in done.stdout.splitlines() if line.startswith("ERROR ")})
    if not outcomes.exists():
        print(
            f"{suite}: no test ran; the last lines are\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
        return False
    found = _outcomes(outcomes)
    text = [name for name, (_, message) in found.items() if _TEXT.search(message)]
    rest = {name: ended for name, ended in found.items() if name not in text}
    counts = Counter(outcome for outcome, _ in rest.values())
    rate = counts["passed"] / max(1, counts["passed"] + counts["failed"])
    print(
        f"{suite}: {rate:.1%} pass (at least {least:.0%}): {counts['passed']} passed, "
        f"{counts['failed']} failed, {counts['skipped']} skipped, {len(text)} about the text of "
        f"JIT graphs; {len(unread)} files cannot be read",
        flush=True,
    )
    for line, count in _failures(rest).most_common(20):
        print(f"  {count:4}  {line}")
    for line in unread:
        print(f"  {line}")
    return rate >= least


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sources", type=Path, metavar="SOURCES")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"some of {', '.join(SUITES)}")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="one of N tests")
    parser.add_argument("--list", action="store_true", help="print the suites")
    given = parser.parse_intermixed_args()
    if given.list:
        print("\n".join(SUITES))
        return
    unknown = set(given.suites) - set(SUITES)
    if unknown:
        parser.error(
            f"no suite is called {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}"
        )
    tests = given.sources / "tests" / "pytest_working"
    if not tests.is_dir():
        parser.error(f"{given.sources} has no folder tests/pytest_working")
    with tempfile.TemporaryDirectory(prefix="bridge-outcomes-") as folder:
        ended = [
            _run(suite, tests.resolve(), given.share, Path(folder) / f"{suite}.jsonl")
            for suite in given.suites or SUITES
        ]
    sys.exit(0 if all(ended) else 1)


if __name__ == "__main__":
    main()
