"""Only regular files are read, and nothing else is waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_frameworks.torch.dynamo.programs.bundle import new_bundle
from habana_frameworks.torch.internal.regular_file import open_regular, read_regular_file


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


# Each of these is put where a file is expected; the key is the words that the error has for it.
INTRUDERS: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", INTRUDERS)
def test_what_is_no_regular_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    INTRUDERS[kind](path)
    with pytest.raises(OSError, match=f"it is {kind} and not a regular file: '{path}'"):
        read_regular_file(path)


def test_a_link_to_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").symlink_to("fifo")
    with pytest.raises(OSError, match="it is a FIFO"):
        read_regular_file(tmp_path / "file")


def test_links_are_followed_but_not_in_an_open_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular_file(tmp_path / "link") == b"content"
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert read_regular_file("file", dir_fd=folder) == b"content"
        with pytest.raises(OSError, match="it is a symbolic link and not a regular file: 'link'"):
            read_regular_file("link", dir_fd=folder)
        with pytest.raises(FileNotFoundError):
            read_regular_file("nothing", dir_fd=folder)
    finally:
        os.close(folder)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular_file(path, limit=5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular_file(path, limit=4)


def test_nothing_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="it is a FIFO"):
        open_regular(tmp_path / "fifo")
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("kind", ["a link", "a FIFO"])
def test_a_bundle_is_not_written_to_what_somebody_laid_there(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    part = tmp_path / "bundle.part"
    part.symlink_to(other) if kind == "a link" else os.mkfifo(part)
    with new_bundle(tmp_path / "bundle"):
        pass
    assert other.read_bytes() == b"kept"
    assert (tmp_path / "bundle").is_file()
    assert not part.exists()
