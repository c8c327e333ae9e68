"""Modes, settings, versions, options and the environment of a process."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import torch
from start_setup import Setup

from .difference import DIFFERENCES, Difference, differs


def _around(case: str, name: str, manager: Callable[[], Any], **more: Any) -> None:
    DIFFERENCES[f"{case}: {name}"] = Difference(case, "around", manager, **more)


@contextlib.contextmanager
def _switched(switch: Callable[[Any], Any], value: Any) -> Any:
    switch(value)
    yield


def _switch(switch: Callable[[Any], Any], value: Any) -> Callable[[], Any]:
    return lambda: _switched(switch, value)


_around("states", "grad mode", torch.enable_grad)
_around("states", "inference mode", torch.inference_mode)
_around("states", "default dtype", _switch(torch.set_default_dtype, torch.float64))
_around("states", "autocast", lambda: torch.autocast("hpu", torch.bfloat16))
_around("states", "autocast of the cpu", lambda: torch.autocast("cpu", torch.bfloat16), moves=False)
_around("states", "deterministic algorithms", _switch(torch.use_deterministic_algorithms, True))
_around("sums", "number of threads", _switch(torch.set_num_threads, 1), moves=False)
_around(
    "sums", "matmul precision", _switch(torch.set_float32_matmul_precision, "medium"), moves=False
)
_around("sums", "autocast", lambda: torch.autocast("hpu", torch.bfloat16))
_around(
    "sums",
    "anomaly mode",
    lambda: torch.autograd.detect_anomaly(check_nan=False),
    moves=False,
    hits=True,
)
_around("sums", "default device", lambda: torch.device("cpu"), moves=False)
_around("sums", "profiler", lambda: torch.profiler.profile(), moves=False, hits=True)
_around("backends", "attention backend", _switch(torch.backends.cuda.enable_flash_sdp, False))


class _DoubleMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.mm else result


_around("sums", "torch function mode", _DoubleMode)


@differs("sums", "before", moves=False)
def _dynamo_config() -> None:
    import torch._dynamo.config

    torch._dynamo.config.allow_rnn = False
    torch._dynamo.config.specialize_float = not torch._dynamo.config.specialize_float


@differs("sums", "before", moves=False)
def _functorch_config() -> None:
    import torch._functorch.config

    torch._functorch.config.functionalize_rng_ops = True


@differs("sums", "before", moves=False)
def _build_of_torch() -> None:
    torch.version.git_version = "another"


@differs("sums", "before", moves=False)
def _version_of_torch() -> None:
    torch.__version__ = torch.torch_version.TorchVersion("2.13.7")


@differs("sums", "before", moves=False)
def _version_of_python() -> None:
    platform.python_version = lambda: "3.11.99"


@differs("sums", "before", moves=False)
def _front_end() -> None:
    from habana_frameworks.torch.dynamo.start import key

    key.code_digest = lambda *folders: "another"


@differs("sums", "before", moves=False)
def _build_of_the_compiler() -> None:
    from habana_frameworks.torch.dynamo.programs.service import service

    type(service).build_id = property(lambda self: "another")


@differs("sums", "after", moves=False)
def _option_in_the_key(setup: Setup) -> None:
    setup.options["deterministic"] = True


@differs("sums", "after", moves=False)
def _option_not_in_the_key(setup: Setup) -> None:
    setup.options["use_compiled_recipes"] = False


@differs("sums", "after", moves=False)
def _fullgraph(setup: Setup) -> None:
    setup.compile_arguments["fullgraph"] = True


@differs("sums", "after", moves=False)
def _dynamic(setup: Setup) -> None:
    setup.compile_arguments["dynamic"] = True


@differs("sums", "after", moves=False)
def _marked_dynamic(setup: Setup) -> None:
    torch._dynamo.maybe_mark_dynamic(setup.args[0], 0)


@differs("ranks", "before")
def _rank() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


DIFFERENCES["environments: variable that is read"] = Difference(
    "environments", "before", lambda: os.environ.update(START_TEST_MODE="other")
)
DIFFERENCES["constants: variable behind a constant"] = Difference(
    "constants", "before", lambda: os.environ.update(START_TEST_CONSTANT="other")
)
for _option, _value in (("HPU_DETERMINISTIC", "1"), ("PT_HPU_USE_INFERENCE_COMPILER", "0")):
    DIFFERENCES[f"functions: environment {_option}"] = Difference(
        "functions", "before", lambda: None, moves=False, environment=((_option, _value),)
    )
DIFFERENCES["sums: environment that says nothing"] = Difference(
    "sums", "before", lambda: None, False, True, environment=(("START_TEST_OTHER", "1"),)
)
DIFFERENCES["sums: seed of hashes"] = Difference(
    "sums", "before", lambda: None, False, True, environment=(("PYTHONHASHSEED", "7"),)
)
DIFFERENCES["sums: arguments of the process"] = Difference(
    "sums", "before", lambda: sys.argv.append("more"), False, True
)
