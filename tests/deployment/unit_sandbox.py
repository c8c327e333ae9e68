"""Runs a command under those restrictions of the systemd unit that the kernel applies to system
calls: SystemCallFilter, RestrictAddressFamilies, MemoryDenyWriteExecute, NoNewPrivileges.

Usage: python unit_sandbox.py COMMAND [ARGUMENTS]     needs libseccomp.so.2, which apt installs
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys

from deployed_server import unit_settings

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_MDWE = 65  # since Linux 6.3; older kernels get only the filter's rules
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_EQUAL = 4


class _Comparison(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    ]


def _calls_of(group: str) -> set[str]:
    """The system calls of "@group", or the one named."""
    if not group.startswith("@"):
        return {group}
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], check=True, capture_output=True, text=True
    ).stdout.splitlines()[1:]
    words = [line.strip() for line in listed if line.strip() and not line.strip().startswith("#")]
    return set().union(*(_calls_of(word) for word in words))


def allowed_calls(filters: list[str]) -> set[str]:
    allowed: set[str] = _calls_of("@default")
    for setting in filters:
        calls = set().union(*(_calls_of(word) for word in setting.lstrip("~").split()))
        allowed = allowed - calls if setting.startswith("~") else allowed | calls
    return allowed


def _restrict(calls: set[str], families: set[str]) -> None:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(_ERRNO | errno.EPERM))
    for name in calls - {"socket"}:
        if (number := library.seccomp_syscall_resolve_name(name.encode())) >= 0:
            assert library.seccomp_rule_add(context, _ALLOW, number, 0) == 0, name
    number = library.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        wanted = _Comparison(0, _EQUAL, int(getattr(socket, family)), 0)
        assert library.seccomp_rule_add_array(context, _ALLOW, number, 1, ctypes.byref(wanted)) == 0
    assert library.seccomp_load(context) == 0


def main() -> None:
    settings = unit_settings("Service")
    unit = dict(settings)
    calls = allowed_calls([value for name, value in settings if name == "SystemCallFilter"])
    process = ctypes.CDLL(None)
    assert unit["NoNewPrivileges"] == "yes"
    assert process.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if unit["MemoryDenyWriteExecute"] == "yes":
        process.prctl(_PR_SET_MDWE, 1, 0, 0, 0)
    _restrict(calls, set(unit["RestrictAddressFamilies"].split()))
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
