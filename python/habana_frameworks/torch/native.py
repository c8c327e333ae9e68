"""Finds the compiled parts, and raises clear errors when they are missing.

`_torch` (the device, the program executor; libtorch) and `_client` (the compile protocol; gRPC) are
loaded one by one and do not know each other: Python passes bytes from one to the other.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "_native"
SERVER_NAME = "hpu_compile_server"


def _load(name: str) -> Any:
    try:
        return importlib.import_module(f"{__package__}._native.{name}")
    except ImportError as error:
        raise ImportError(
            f"the native part {name} of habana_frameworks.torch cannot be loaded from {FOLDER}: "
            f"{error}. Build it with ./dev build, or install the wheel."
        ) from error


@functools.cache
def torch_module() -> Any:
    """The extension module `_torch`; its import registers the device with PyTorch."""
    module = _load("_torch")
    module.initialize(str(FOLDER / "libSynapse.so"))
    return module


@functools.cache
def client_module() -> Any:
    """The extension module `_client`."""
    return _load("_client")


def built_for() -> str:
    """The version of PyTorch that `_torch` was built with."""
    return (FOLDER / "torch_version.txt").read_text(encoding="utf-8").strip()


def server_binary() -> str:
    """The path of the compile server: HPU_COMPILE_SERVER_BINARY, the package's own, or the one on
    PATH."""
    named = os.environ.get("HPU_COMPILE_SERVER_BINARY")
    if named:
        return named
    own = FOLDER / SERVER_NAME
    if own.exists():
        return str(own)
    found = shutil.which(SERVER_NAME)
    if found is None:
        raise FileNotFoundError(
            f"no compile server: neither HPU_COMPILE_SERVER_BINARY, {own} nor {SERVER_NAME} "
            "on PATH exists"
        )
    return found


def cache_dir() -> str:
    """The folder HPU_CACHE_DIR, or the folder hpu_backend in the user's cache folder."""
    named = os.environ.get("HPU_CACHE_DIR")
    if named:
        return os.path.expanduser(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "hpu_backend")
