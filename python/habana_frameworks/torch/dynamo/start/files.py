"""The folder of stored starts: this user's alone, and signed with the user's own key.

    <cache folder>/start/key                        32 random bytes, mode 0600
    <cache folder>/start/starts/<start key>/<sha256 of the content>
        "hpu-start-1\n", 32 bytes HMAC-SHA256(key, name of the start + content), content

The contents are pickles, so nothing is read that lies in a folder others can write to, belongs to
another user or was not signed for the start it is filed under. They never leave the machine's user.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ... import native

_MAGIC = b"hpu-start-1\n"
_KEY_BYTES = 32
_MAC_BYTES = 32

# Starts of one key (recompilations, layers of one class), and of all; the oldest go.
MAX_PER_KEY = 64
MAX_FILES = 4096


class NoFolder(Exception):
    """The folder cannot be trusted or written; the text says why."""


def folder() -> Path:
    return Path(native.cache_dir()) / "start"


def _own_folder() -> Path:
    path = folder()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise NoFolder(f"{path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise NoFolder(f"{path} is not a folder of this user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise NoFolder(f"{path} is open to other users")
    return path


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def _signing_key(path: Path) -> bytes:
    """Makes one where there is none; of several processes that do, one wins."""
    file = path / "key"
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        temporary = path / f".key.{os.getpid()}"
        _write(temporary, os.urandom(_KEY_BYTES))
        try:
            os.link(temporary, file)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        key = file.read_bytes()
    if len(key) != _KEY_BYTES:
        raise NoFolder(f"{file} is no key")
    return key


def _mac(key: bytes, start_key: str, content: bytes) -> bytes:
    return hmac.digest(key, start_key.encode() + b"\n" + content, "sha256")


def read(start_key: str) -> Iterator[bytes]:
    """Contents filed under a key, the newest first; what is not signed by this user is not one."""
    try:
        own = _own_folder()
        paths = list((own / "starts" / start_key).iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise NoFolder(str(error)) from error
    key = _signing_key(own)
    for path in sorted(paths, key=_age):
        try:
            signed = path.read_bytes()
        except OSError:
            continue  # evicted just now
        head = len(_MAGIC) + _MAC_BYTES
        content = signed[head:]
        if signed[: len(_MAGIC)] == _MAGIC and hmac.compare_digest(
            signed[len(_MAGIC) : head], _mac(key, start_key, content)
        ):
            yield content


def _age(path: Path) -> tuple[int, str]:
    try:
        return -path.stat().st_mtime_ns, path.name
    except OSError:
        return 0, path.name


def write(start_key: str, content: bytes) -> None:
    """Raises NoFolder."""
    own = _own_folder()
    try:
        target = own / "starts" / start_key
        target.parent.mkdir(mode=0o700, exist_ok=True)
        target.mkdir(mode=0o700, exist_ok=True)
        name = hashlib.sha256(content).hexdigest()
        signed = _MAGIC + _mac(_signing_key(own), start_key, content) + content
        _write(target / name, signed)
        _evict(list(target.iterdir()), MAX_PER_KEY)
        _evict(list((own / "starts").glob("*/*")), MAX_FILES)
    except OSError as error:
        raise NoFolder(f"{own}: {error}") from error


def _evict(paths: list[Path], limit: int) -> None:
    for path in sorted(paths, key=_age)[limit:]:
        path.unlink(missing_ok=True)


def append_line(name: str, line: str, max_bytes: int) -> None:
    """Adds to a text file of the folder; above max_bytes its older half goes. Raises NoFolder."""
    path = _own_folder() / name
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > max_bytes:
            kept = path.read_bytes()[-max_bytes // 2 :]
            _write(path, kept.partition(b"\n")[2])
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
        file.write(line + "\n")


def lines(name: str) -> list[str]:
    """Of a text file of the folder; none if there is no such file. Raises NoFolder."""
    try:
        return (_own_folder() / name).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
