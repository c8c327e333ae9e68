"""The folder of stored starts, which belongs to this user alone and is signed with the user's own
key.

<cache folder>/start/key                        32 random bytes, mode 0600
<cache folder>/start/starts/<start key>/<sha256 of the content>
"hpu-start-1\n", 32 bytes HMAC-SHA256(key, name of the start + content), content

The contents are pickles. Therefore nothing is read that lies in a folder others can write to,
belongs to another user or was not signed for the start it is filed under. Starts never leave the
machine's user. Every folder is opened once and checked by its descriptor, and everything below is
named relative to that descriptor: a process that renames folders meanwhile does not change what is
read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from ... import native
from ...internal.regular_file import open_regular

_MAGIC = b"hpu-start-1\n"
_KEY_BYTES = 32
_MAC_BYTES = 32
# A start of a deep model takes a few MiB.
_MAX_START_BYTES = 256 << 20

# Limits on the starts of one key (recompilations, layers of one class) and on all starts; the
# oldest go.
MAX_PER_KEY = 64
MAX_FILES = 4096

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NoFolder(Exception):
    """The folder cannot be trusted or written; the text says why."""


def folder() -> Path:
    return Path(native.cache_dir()) / "start"


@contextlib.contextmanager
def _opened(name: str, within: int | None, shown: str, closed_to: int) -> Iterator[int]:
    """Opens a folder and gives its descriptor. closed_to: what no other user may do with the
    folder, as bits of a mode. Below `within` links are not followed. Raises NoFolder and
    FileNotFoundError."""
    flags = _FOLDER if within is None else _FOLDER | os.O_NOFOLLOW
    try:
        descriptor = os.open(name, flags, dir_fd=within)
    except NotADirectoryError:
        raise NoFolder(f"{shown} is not a folder of this user") from None
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise NoFolder(f"{shown} is not a folder of this user")
        if stat.S_IMODE(status.st_mode) & closed_to:
            doing = "written by" if closed_to == 0o022 else "open to"
            raise NoFolder(
                f"{shown} is {doing} other users: it has mode {status.st_mode & 0o777:o}"
            )
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _own_folder() -> Iterator[int]:
    """The descriptor of the folder, which is made if there is none. Raises NoFolder."""
    path = folder()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(str(path.parent), None, str(path.parent), 0o022) as cache:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path.name, 0o700, dir_fd=cache)
            with _opened(path.name, cache, str(path), 0o077) as own:
                yield own
    except OSError as error:
        raise NoFolder(f"{path}: {error}") from error


@contextlib.contextmanager
def _starts(own: int, start_key: str, *, make: bool) -> Iterator[tuple[int, int]]:
    """The descriptors of the folder of all starts and of that of one key. Raises
    FileNotFoundError."""
    shown = folder() / "starts"
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir("starts", 0o700, dir_fd=own)
    with _opened("starts", own, str(shown), 0o022) as starts:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(start_key, 0o700, dir_fd=starts)
        with _opened(start_key, starts, str(shown / start_key), 0o022) as of_key:
            yield starts, of_key


def _read(name: str, within: int, limit: int) -> bytes:
    """The content of a file of this user. Raises OSError for anything else."""
    with os.fdopen(open_regular(name, dir_fd=within), "rb") as file:
        if os.fstat(file.fileno()).st_uid != os.geteuid():
            raise PermissionError(f"{name} is not a file of this user")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(f"{name} has more than {limit} bytes")
    return content


def _temporary(name: str, within: int, content: bytes) -> str:
    """Makes a new file beside `name` that no other process and no other thread writes; returns its
    name."""
    temporary = f".{name}.{os.getpid()}.{threading.get_ident()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=within)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=within), "wb") as file:
        file.write(content)
    return temporary


def _write(name: str, within: int, content: bytes) -> None:
    """Writes the file whole or not at all."""
    temporary = _temporary(name, within, content)
    os.replace(temporary, name, src_dir_fd=within, dst_dir_fd=within)


def _signing_key(own: int) -> bytes:
    """The user's key, which is made if there is none. If several processes make one, one of them
    wins."""
    try:
        key = _read("key", own, _KEY_BYTES)
    except FileNotFoundError:
        temporary = _temporary("key", own, os.urandom(_KEY_BYTES))
        try:
            os.link(temporary, "key", src_dir_fd=own, dst_dir_fd=own)
        except FileExistsError:
            pass
        finally:
            os.unlink(temporary, dir_fd=own)
        key = _read("key", own, _KEY_BYTES)
    if len(key) != _KEY_BYTES:
        raise NoFolder(f"{folder() / 'key'} is not a key")
    return key


def _mac(key: bytes, start_key: str, content: bytes) -> bytes:
    return hmac.digest(key, start_key.encode() + b"\n" + content, "sha256")


def read(start_key: str) -> Iterator[bytes]:
    """The contents that are filed under a key, the newest first. Content that this user did not
    sign is skipped."""
    missing = contextlib.suppress(FileNotFoundError)
    with _own_folder() as own, missing, _starts(own, start_key, make=False) as (_, of_key):
        key = _signing_key(own)
        for name in _newest_first(of_key):
            try:
                signed = _read(name, of_key, _MAX_START_BYTES)
            except OSError:
                continue  # it was evicted just now, or it is not a file
            head = len(_MAGIC) + _MAC_BYTES
            content = signed[head:]
            if signed[: len(_MAGIC)] == _MAGIC and hmac.compare_digest(
                signed[len(_MAGIC) : head], _mac(key, start_key, content)
            ):
                yield content


def _newest_first(within: int) -> list[str]:
    return [name for _, name in sorted((_age(name, within), name) for name in os.listdir(within))]


def _age(name: str, within: int) -> int:
    try:
        return -os.stat(name, dir_fd=within, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def write(start_key: str, content: bytes) -> None:
    """Files the content under a key. Raises NoFolder."""
    with _own_folder() as own, _starts(own, start_key, make=True) as (starts, of_key):
        name = hashlib.sha256(content).hexdigest()
        signed = _MAGIC + _mac(_signing_key(own), start_key, content) + content
        _write(name, of_key, signed)
        for old in _newest_first(of_key)[MAX_PER_KEY:]:
            _remove(old, of_key)
        _evict(starts)


def _evict(starts: int) -> None:
    """Keeps the newest MAX_FILES starts of all keys."""
    files = []
    for start_key in os.listdir(starts):
        passing = contextlib.suppress(OSError, NoFolder)
        with passing, _opened(start_key, starts, start_key, 0o022) as of_key:
            files += [(_age(name, of_key), start_key, name) for name in os.listdir(of_key)]
    for _, start_key, name in sorted(files)[MAX_FILES:]:
        _remove(f"{start_key}/{name}", starts)


def _remove(name: str, within: int) -> None:
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name, dir_fd=within)


def append_line(name: str, line: str, max_bytes: int) -> None:
    """Adds a line to a text file of the folder; above max_bytes the older half of the file goes.
    Raises NoFolder."""
    with _own_folder() as own:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name, dir_fd=own, follow_symlinks=False).st_size > max_bytes:
                kept = _read(name, own, _MAX_START_BYTES)[-max_bytes // 2 :]
                _write(name, own, kept.partition(b"\n")[2])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=own), "w") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NoFolder(f"{folder() / name} is not a regular file")
            file.write(line + "\n")


def lines(name: str) -> list[str]:
    """The lines of a text file of the folder; none if there is no such file. Raises NoFolder."""
    with _own_folder() as own:
        try:
            return _read(name, own, _MAX_START_BYTES).decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []
