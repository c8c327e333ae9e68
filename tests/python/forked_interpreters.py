"""Processes that run a script as an interpreter does, forked from one that has imported PyTorch.

To import PyTorch and Dynamo takes more than three seconds of processor time, most of what a short
script costs. A script that depends on the environment at the import, or on how an interpreter
ends, needs a fresh interpreter (processes.py).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

# The larger part of what PyTorch imports until a graph with DTensors is compiled.
_IMPORTED = [
    "torch",
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor.lowering",
    "torch._inductor.pattern_matcher",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
]


def start(script: Path, environment: Mapping[str, str], output: Path, errors: Path) -> BaseProcess:
    """Starts `script` with this environment; its standard output and error go to these files.

    The first call starts the process that imports; it lives as long as the calling one.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    process = context.Process(
        target=_run, args=(str(script), dict(environment), str(output), str(errors))
    )
    process.start()
    return process


def _run(script: str, environment: dict[str, str], output: str, errors: str) -> None:
    for path, descriptor in ((output, 1), (errors, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:
        # multiprocessing ends the process without this, which an interpreter does at its end.
        atexit._run_exitfuncs()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
