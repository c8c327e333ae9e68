"""`hpu-compile serve` and `hpu-compile token`: a compile server that other hosts use."""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .. import native
from .values import parse_days, parse_word

_ROLES = ("read", "compile", "admin")


def _roles(text: str) -> str:
    unknown = [role for role in text.split(",") if role not in _ROLES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(_ROLES)}")
    return text


def add_token_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", type=parse_word, help="name of the caller in the server's log")
    command.add_argument(
        "tenant", type=parse_word, help="tenant whose names of programs the caller sees and files"
    )
    command.add_argument("roles", type=_roles, help="read, compile, admin, separated by commas")
    command.add_argument(
        "--days", type=parse_days, help="days for which it is valid; by default for ever"
    )
    command.add_argument("--out", help="new file for the token; by default it is printed")


def token(arguments: argparse.Namespace) -> dict[str, Any]:
    """Makes a token for a caller of a shared server, and the line for the server's callers'
    file."""
    secret = secrets.token_urlsafe(32)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    line = f"{arguments.name} {arguments.tenant} {arguments.roles} sha256:{digest}"
    if arguments.days is not None:
        # The last day is a whole one.
        last = datetime.now(UTC) + timedelta(days=arguments.days)
        line += f" {last:%Y-%m-%d}"
    answer = {"line": line}
    if arguments.out is None:
        return {"token": secret, **answer}
    path = Path(arguments.out)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")
    return {"token": f"in {path.absolute()}", **answer}


def serve(arguments: list[str]) -> None:
    """Becomes a compile server with these arguments (docs/cluster.md)."""
    binary = native.server_binary()
    os.execv(binary, [binary, *arguments])
