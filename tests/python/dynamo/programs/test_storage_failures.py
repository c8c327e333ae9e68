"""A cache folder that cannot be written, is full or damaged: right results, nothing corrupt."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import stop_daemon
from failing_process import hpu_compile, log_of, run

# Takes root's right to write everywhere from a process.
BECOME_PLAIN_USER = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for kind in range(3):  # effective, permitted, inherited: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        sets[kind] &= ~0b110
    for capability in (1, 2):
        assert libc.prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP
    assert libc.capset(header, sets) == 0
"""
LIMIT_FILES = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"

LISTEN = """
import logging
heard = []
handler = logging.Handler()
handler.emit = lambda record: heard.append(record.getMessage())
logging.getLogger("habana_frameworks.torch.dynamo").addHandler(handler)
"""
HEARD_OF_MEMORY = """
(warning,) = [text for text in heard if "kept in memory only" in text]
assert warning.startswith("new programs are kept in memory only and are lost when the daemon ends")
"""

OTHER_GRAPH = "x = x[:2]"  # another shape, so another program


def test_unwritable_cache_folder(private_cache):
    """Stored programs are served; a new program lives as long as the daemon, in a substitute
    folder."""
    run(private_cache)
    assert hpu_compile(private_cache, "stop")["stopped"]
    files = {path: path.stat().st_mode for path in [private_cache, *private_cache.rglob("*")]}
    for path, mode in files.items():
        path.chmod(mode & ~0o222)
    try:
        assert run(private_cache, BECOME_PLAIN_USER)["origin"] == "store"
        warned = run(private_cache, BECOME_PLAIN_USER + LISTEN + OTHER_GRAPH, HEARD_OF_MEMORY)
        assert warned["origin"] == "compiled"
        status = hpu_compile(private_cache, "status", before=BECOME_PLAIN_USER)
        assert not status["socket"].startswith(str(private_cache))
        assert "store cannot be written, serving what it has" in log_of(status)
        assert "cannot be written, new programs are kept in memory only" in status["problem"]
        assert hpu_compile(private_cache, "stop", before=BECOME_PLAIN_USER)["stopped"]
        assert set(files) == {private_cache, *private_cache.rglob("*")}
        shutil.rmtree(Path(status["socket"]).parent)
    finally:
        for path, mode in files.items():
            path.chmod(mode)


def unusable(kind: str, folder: Path) -> Path:
    """A path that cannot be used as a cache folder."""
    if kind == "a file":
        (folder / "file").write_text("")
        return folder / "file"
    if kind == "too long for a socket":
        return folder / ("long" * 30)
    folder.chmod(0o500)
    return folder / "missing" if kind == "cannot be made" else folder


@pytest.mark.parametrize(
    ("kind", "runtime_folder"),
    [
        ("a file", True),
        ("too long for a socket", False),
        ("cannot be made", False),
        ("unwritable", True),
    ],
)
def test_substitute_for_the_cache_folder(tmp_path, kind, runtime_folder):
    """The daemon is found, asked and stopped at its real place."""
    # short enough for a socket, as users' folders are
    runtime = Path(tempfile.mkdtemp(prefix="hpu-run-"))
    folder = tmp_path / "cache"
    folder.mkdir()
    cache = unusable(kind, folder)
    place = {"XDG_RUNTIME_DIR": str(runtime) if runtime_folder else "/nowhere"}
    how: dict[str, Any] = {"before": BECOME_PLAIN_USER, **place}
    try:
        assert not hpu_compile(cache, "status", **how)["running"]
        assert run(cache, **how)["origin"] == "compiled"
        status = hpu_compile(cache, "status", **how)
        assert status["running"]
        parent = str(runtime) if runtime_folder else "/tmp"
        assert status["socket"].startswith(f"{parent}/hpu-")
        assert run(cache, **how)["origin"] == "store"
        if kind != "too long for a socket":  # there the store itself can be used
            assert "programs are kept in memory only" in log_of(status)
            assert "programs are kept in memory only" in status["problem"]
        stopped = hpu_compile(cache, "stop", **how)
        assert stopped == {"stopped": True, "pid": status["pid"]}
        assert not hpu_compile(cache, "status", **how)["running"]
        shutil.rmtree(Path(status["socket"]).parent)
    finally:
        folder.chmod(0o700)
        shutil.rmtree(runtime)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A disk of its own for the folder; the folder's daemon is stopped at the end."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        stop_daemon(folder)
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """A file that takes the remaining space of the disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


@needs_root
def test_disk_that_becomes_full(private_cache):
    """Stored programs are served; a new program is stored once there is room again."""
    with small_disk(private_cache, "64m"):
        assert run(private_cache)["origin"] == "compiled"
        assert hpu_compile(private_cache, "stop")["stopped"]
        filler = fill(private_cache)
        assert run(private_cache)["origin"] == "store"
        assert run(private_cache, OTHER_GRAPH)["origin"] == "compiled"
        assert hpu_compile(private_cache, "stop")["stopped"]
        filler.unlink()
        assert run(private_cache)["origin"] == "store"
        assert run(private_cache, OTHER_GRAPH)["origin"] == "compiled"
        assert hpu_compile(private_cache, "stop")["stopped"]
        assert run(private_cache, OTHER_GRAPH)["origin"] == "store"


@needs_root
def test_disk_that_is_full_from_the_beginning(private_cache):
    with small_disk(private_cache, "64k"):
        fill(private_cache)
        answer = run(private_cache)
        assert answer["origin"] in ("compiled", "eager")
        assert answer["origin"] == "compiled" or "No space left" in str(answer["reason"])


def test_limit_of_file_sizes(private_cache):
    """A write past the limit is an error, not the end of the server (RocksDB passes it)."""
    assert run(private_cache, LIMIT_FILES)["origin"] == "compiled"
    assert run(private_cache, LIMIT_FILES)["origin"] == "store"
    assert hpu_compile(private_cache, "stop")["stopped"]
    assert run(private_cache)["origin"] in ("compiled", "store")


def test_damaged_store_is_never_served(private_cache):
    run(private_cache)
    assert hpu_compile(private_cache, "stop")["stopped"]
    damaged = 0
    for path in private_cache.rglob("*"):
        if path.suffix in (".sst", ".blob", ".log") and path.stat().st_size > 200:
            data = bytearray(path.read_bytes())
            for position in range(100, len(data), 97):
                data[position] ^= 0x40
            path.write_bytes(bytes(data))
            damaged += 1
    assert damaged
    assert run(private_cache)["origin"] in ("compiled", "eager")
