"""Processes that run a script as an interpreter does, forked from one that has imported PyTorch.

To import PyTorch and Dynamo takes more than three seconds of processor time, most of what a short
script costs. A script that tests what an import of PyTorch does, or how an interpreter ends, needs
a fresh one.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

_PRELOADED = "preloaded_interpreter"


def run(
    script: Path | str,
    environment: Mapping[str, str],
    arguments: Sequence[str] = (),
    folder: Path | None = None,
    timeout: float = 240,
) -> subprocess.CompletedProcess[str]:
    """Runs a file, or code as `python -c` does, in `folder` or in the current one.

    Raises subprocess.TimeoutExpired after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory() as own:
        streams = [Path(own) / name for name in ("output", "errors")]
        process = start(script, environment, *streams, arguments=arguments, folder=folder)
        try:
            process.join(timeout)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired(str(script), timeout)
        finally:
            process.kill()
        told = [stream.read_text() for stream in streams]
        return subprocess.CompletedProcess(str(script), process.exitcode, *told)


def start(
    script: Path | str,
    environment: Mapping[str, str],
    output: Path,
    errors: Path,
    arguments: Sequence[str] = (),
    folder: Path | None = None,
) -> BaseProcess:
    """Starts `script` with this environment; its output goes to these files, and it has no input.

    The first call starts the process that imports; it lives as long as the calling one.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    with _importable():
        multiprocessing.forkserver.ensure_running()
    process = context.Process(
        target=_run,
        args=(script, dict(environment), (str(output), str(errors)), list(arguments), folder),
    )
    process.start()
    return process


@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """An interpreter that starts meanwhile finds the module beside this file."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, [before])]
    )
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _run(
    script: Path | str,
    environment: dict[str, str],
    streams: Sequence[str],
    arguments: list[str],
    folder: Path | None,
) -> None:
    for descriptor, path in enumerate(streams, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    if folder is not None:
        os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_file = isinstance(script, Path)
    sys.path[:] = [str(script.parent) if is_file else "", *sys.modules[_PRELOADED].PATH]
    sys.argv = [str(script) if is_file else "-c", *arguments]
    try:
        sys.modules[_PRELOADED].load_devices()
        if isinstance(script, Path):
            runpy.run_path(str(script), run_name="__main__")
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(script, "<string>", "exec"), vars(main))
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:
        # multiprocessing ends the process without what an interpreter does at its end. Most of
        # that takes time and is not needed.
        atexit._run_exitfuncs()
        if "torch.distributed" in sys.modules:
            distributed = sys.modules["torch.distributed"]
            if distributed.is_initialized():
                distributed.destroy_process_group()
