"""Where programs in C and C++ find the headers and the library of the device (hccl.h,
synapse_api.h, libSynapse.so)."""

from __future__ import annotations

from pathlib import Path

_NATIVE = Path(__file__).resolve().parents[1] / "_native"


def get_include_dir() -> str:
    """The folder to pass to the compiler with -I."""
    return str(_NATIVE / "include")


def get_lib_dir() -> str:
    """The folder to pass to the linker with -L and -rpath."""
    return str(_NATIVE)
