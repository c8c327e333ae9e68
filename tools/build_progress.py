"""Runs ninja and shows how far it is and how long the rest will take.

Usage: python tools/build_progress.py NINJA [ARGUMENTS]     exits as ninja does

Ninja's own remaining time (%W) sets the time that commands took in this build against the time that
the others took in an earlier one, so it is right only on a machine that is as fast. Here both come
from cmake/first_build_times.txt, of which only the relations matter.
"""

import collections.abc
import os
import pathlib
import re
import shutil
import subprocess
import sys

TIMES = pathlib.Path(__file__).resolve().parent.parent / "cmake/first_build_times.txt"
# The list leaves out what takes less than 0.3 s, except compilations.
SHORT_S = 0.1
FINISHED = re.compile(r"\[(\d+) of (\d+), ([\d.]+)\] (.*)")


def read_times(text: str) -> dict[str, float]:
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {output: int(tenths) / 10 for tenths, output in rows}


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


class Progress:
    """The work that is done and that is left, in seconds of the build that made the list."""

    def __init__(self, planned: collections.abc.Iterable[str], times: dict[str, float]) -> None:
        self.times = times
        objects = [seconds for output, seconds in times.items() if output.endswith(".o")]
        self.usual_object = sum(objects) / len(objects)
        self.done = 0.0
        self.left = sum(self.expected(command) for command in planned)

    def expected(self, command: str) -> float:
        """The time of a command by its description, which ends with the name of its output."""
        output = command.split()[-1]
        return self.times.get(output, self.usual_object if output.endswith(".o") else SHORT_S)

    def seconds_left(self, finished: str, elapsed: float) -> float:
        """Called once for each command that has finished, `elapsed` seconds after the start."""
        self.done += self.expected(finished)
        self.left = max(self.left - self.expected(finished), 0.0)
        return elapsed * self.left / self.done


def start(ninja: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ninja,
        env=os.environ | {"NINJA_STATUS": "[%f of %t, %e] "},
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def plan(ninja: list[str]) -> Progress:
    output = start([*ninja, "-n"]).communicate()[0]
    commands = [match[4] for match in map(FINISHED.fullmatch, output.splitlines()) if match]
    return Progress(commands, read_times(TIMES.read_text(encoding="utf-8")))


def main(ninja: list[str]) -> int:
    progress = plan(ninja)
    one_line = sys.stdout.isatty()
    shown = False
    build = start(ninja)
    assert build.stdout is not None
    for line in map(str.rstrip, build.stdout):
        match = FINISHED.fullmatch(line)
        if match:
            count, total, elapsed, command = match.groups()
            left = clock(progress.seconds_left(command, float(elapsed)))
            line = f"[{count} of {total}, {clock(float(elapsed))}, left about {left}] {command}"
            if command.startswith("Re-running CMake"):  # what follows was not planned before
                progress = plan(ninja)
        if one_line and match:
            print(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
        else:
            print("\n" * shown + line, flush=True)
        shown = one_line and match is not None
    print("\n" * shown, end="", flush=True)
    return build.wait()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # it ends ninja too
        sys.exit(130)
