"""Reads files that somebody else may have put in place; the whole package opens such files here.

A FIFO or a device in place of a file would block the reader for good, or never end. Files are
opened here without waiting, and their kind is asked of the descriptor, not of the path, which may
lead elsewhere by then.
"""

from __future__ import annotations

import errno
import os
import stat

# Keys, tokens, settings and manifests take kilobytes; a larger file than this is none of them.
DEFAULT_LIMIT = 64 << 20

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


def open_regular(path: str | os.PathLike[str], *, dir_fd: int | None = None) -> int:
    """A descriptor for reading, which the caller closes. Raises OSError with the reason.

    Without dir_fd a symbolic link is followed. With dir_fd, `path` is a name in that open folder,
    and a link is refused: only files in the folder itself are read.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if dir_fd is not None:
        flags |= os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, dir_fd=dir_fd)
    except OSError as error:
        # A socket cannot be opened at all, and here a link cannot either; the system's text names
        # neither.
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.ELOOP):
            found = os.stat(path, dir_fd=dir_fd, follow_symlinks=dir_fd is None)
            _check_regular(found.st_mode, path)
        raise
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular_file(
    path: str | os.PathLike[str], *, dir_fd: int | None = None, limit: int = DEFAULT_LIMIT
) -> bytes:
    """The whole content. Raises OSError as open_regular does, and for a file of more than `limit`
    bytes."""
    with os.fdopen(open_regular(path, dir_fd=dir_fd), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", os.fspath(path))
    return content


def _check_regular(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISREG(mode):
        return
    kind = _KINDS.get(stat.S_IFMT(mode), "of an unknown kind")
    kind_error = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(kind_error, f"it is {kind} and not a regular file", os.fspath(path))
