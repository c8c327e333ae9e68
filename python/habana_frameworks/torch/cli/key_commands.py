"""`hpu-compile keys`: the keys whose programs are trusted."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import native
from ..dynamo.programs.local_daemon import server_paths
from ..internal.regular_file import read_regular_file
from .daemon import find_daemon
from .errors import CommandError
from .values import parse_path


def add_keys_arguments(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument("--folder", type=parse_path, help="show a server's --trusted-keys folder")
    where.add_argument("--new", type=parse_path, help="make a key pair in a folder, for `sign`")


def keys(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Shows the keys whose signatures the daemon believes, its own first; or those of a folder; or
    makes a new key."""
    module = native.client_module()
    if arguments.new is not None:
        arguments.new.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (arguments.new / "signing.key").exists():
            raise CommandError(f"{arguments.new} holds a key already")
        key = module.make_key(str(arguments.new))
        return [{"name": str(arguments.new / "signing.pub"), "state": "new", "public key": key}]
    if arguments.folder is not None:
        return _of_folder(arguments.folder)
    return believed_keys()


def believed_keys() -> list[dict[str, Any]]:
    """The keys that the daemon believes, its own first."""
    if find_daemon() is None:
        raise CommandError("no daemon is running that says whose programs are believed")
    trusted = native.client_module().read_keyring(server_paths()["socket"] + ".pub")
    return [
        {"name": "", "state": "trusted" if i else "the daemon's own", "public key": key}
        for i, key in enumerate(trusted)
    ]


def _of_folder(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        raise CommandError(f"{folder} is not a folder")
    rows = []
    files = sorted(p for p in folder.iterdir() if p.suffix in (".pub", ".revoked"))
    contents = [read_regular_file(path) for path in files]
    found = list(zip(files, contents, strict=True))
    revoked = {content for path, content in found if path.suffix == ".revoked"}
    for path, content in found:
        if len(content) != 32:
            state = f"no key: it has {len(content)} bytes instead of 32"
        else:
            state = "revoked" if content in revoked else "trusted"
        rows.append({"name": path.name, "state": state, "public key": content[:32].hex()})
    return rows
