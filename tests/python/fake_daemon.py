"""A server process with a fake compiler (tests/service/fake_backend.h), and what it is asked."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from paths import ROOT

from habana_frameworks.torch import native


def native_client() -> Any:
    """The module of HPU_TEST_BUILD if set, else the installed one."""
    build = os.environ.get("HPU_TEST_BUILD")
    if build:
        sys.path.insert(0, str(Path(build) / "backend/client"))
        import _client

        return _client
    return pytest.importorskip("habana_frameworks.torch._native._client")


_client = native_client()


def fake_server() -> Path:
    build = Path(os.environ.get("HPU_TEST_BUILD", ROOT / "build/release"))
    binary = build / "tests/service/hpu_fake_compile_server"
    if not binary.exists():
        pytest.skip(f"{binary} is not built")
    return binary


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def graph(text: str) -> bytes:
    """A graph that tells the fake compiler what to do."""
    builder = native.torch_module().GraphBuilder("fake")
    constant = builder.add_constant(torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8))
    builder.set_outputs([builder.Value(constant)])
    return bytes(builder.serialize())


class Daemon:
    """A cache folder and whatever server runs in it."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self.folder = folder
        self.binary = binary
        self.compiles = folder / "compiles"

    def start(self, **options: Any) -> str:
        return str(_client.ensure_server(str(self.binary), str(self.folder / "cache"), **options))

    def client(self) -> Any:
        return _client.CompileClient(self.start())

    def compile(self, name: str, client: Any = None, **options: Any) -> Any:
        client = client or self.client()
        front_end = options.pop("front_end", (key(name), [("graph", name)], f"label {name}"))
        return client.compile(graph(name), {}, "gaudi2", "x86-64-v3", front_end, **options)

    def held(self, name: str = "") -> str:
        """Returns the text of a graph whose compilation lasts until release()."""
        return f"held:{self.folder}/gate {name}"

    def release(self) -> None:
        (self.folder / "gate").touch()

    def compile_count(self) -> int:
        return len(self.compiles.read_text().splitlines()) if self.compiles.exists() else 0

    def log(self) -> str:
        return Path(_client.server_paths(str(self.folder / "cache"))["log"]).read_text()

    def stop(self) -> None:
        with contextlib.suppress(_client.CompileError):
            _client.CompileClient(
                _client.server_paths(str(self.folder / "cache"))["socket"]
            ).shutdown()


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    made = Daemon(tmp_path, fake_server())
    monkeypatch.setenv("HPU_FAKE_COMPILE_LOG", str(made.compiles))
    yield made
    made.stop()
