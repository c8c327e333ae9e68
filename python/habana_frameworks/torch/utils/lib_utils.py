"""The folders in which programs in C and C++ find headers and libraries: those of the Synapse
API (synapse_api.h, hccl.h, libSynapse.so), and those for operators and kernels of the user's own
(hpu_custom_op_pt2.h, hpu_custom_kernel.h, libhabana_pytorch2_plugin.so; docs/custom_kernels.md)."""

from __future__ import annotations

from pathlib import Path

_NATIVE = Path(__file__).resolve().parents[1] / "_native"


def get_include_dir() -> str:
    """The folder to pass to the compiler with -I."""
    return str(_NATIVE / "include")


def get_lib_dir() -> str:
    """The folder to pass to the linker with -L and -rpath."""
    return str(_NATIVE)
