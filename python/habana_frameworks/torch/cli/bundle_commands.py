"""Programs in files: `hpu-compile export`, `import`, `sign`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import native
from ..dynamo.programs.bundle import BundledProgram, BundleReader, new_bundle
from ..internal.regular_file import open_regular
from .daemon import daemon_client
from .errors import CommandError
from .key_commands import believed_keys
from .progress import Progress
from .store_commands import find_manifests, label_of
from .values import parse_path

# The time for one program, which may have gigabytes.
_IMPORT_TIMEOUT_S = 600.0


def add_export_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("bundle", type=parse_path, help="file to write, a tar archive")
    command.add_argument(
        "keys", nargs="*", metavar="key", help="keys of the programs; by default all"
    )


def export_(arguments: argparse.Namespace) -> dict[str, Any]:
    """Writes stored programs, with their signatures and names, into one file: a bundle, which is
    also an OCI image layout."""
    client = daemon_client()
    stored = client.list()
    chosen = find_manifests(arguments.keys, stored) if arguments.keys else stored
    unique = {manifest["key"]: manifest for manifest in chosen}
    written = 0
    with new_bundle(arguments.bundle) as bundle, Progress("exporting") as progress:
        for count, manifest in enumerate(unique.values()):
            progress(count, len(unique))
            program = _fetch(client, manifest)
            if program is not None:
                bundle.add(program)
                written += 1
    return {
        "bundle": str(arguments.bundle),
        "programs": written,
        "bytes": arguments.bundle.stat().st_size,
    }


def _fetch(client: Any, manifest: dict[str, Any]) -> BundledProgram | None:
    """The stored program; None if it left the store meanwhile."""
    loaded = client.get_content(bytes.fromhex(manifest["key"]))
    if loaded is None:
        return None
    aliases = []
    for alias in manifest["aliases"]:
        named = client.get(bytes.fromhex(alias["front_end_key"]))
        if named is not None and named.manifest["key"] == manifest["key"]:
            aliases.append(named.signed_alias)
    blobs = [bytes(loaded.program), *(bytes(recipe) for recipe in loaded.recipes)]
    return BundledProgram(
        manifest["key"], label_of(manifest), loaded.signed_manifest, blobs, aliases
    )


@contextmanager
def _open(path: Path) -> Iterator[BundleReader]:
    with os.fdopen(open_regular(path), "rb") as file, BundleReader(file, str(path)) as bundle:
        yield bundle


def add_import_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("bundle", type=parse_path, help="file that export wrote")


def import_(arguments: argparse.Namespace) -> dict[str, Any]:
    """Files the programs of a bundle in the daemon's store, which accepts those that are signed by
    its own key or by one in its --trusted-keys."""
    client = daemon_client()
    aliases = 0
    with _open(arguments.bundle) as bundle, Progress("importing") as progress:
        for count, program in enumerate(bundle):
            progress(count, len(bundle))
            try:
                aliases += client.import_program(
                    program.manifest, program.blobs, program.aliases, _IMPORT_TIMEOUT_S
                )
            except native.client_module().CompileError as error:
                raise CommandError(
                    f"program {count + 1} of {len(bundle)} ({program.key[:16]}) was not taken, "
                    f"{count} before it were: {error}"
                ) from error
        return {"bundle": str(arguments.bundle), "programs": len(bundle), "aliases": aliases}


def add_sign_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("bundle", type=parse_path, help="file that export wrote")
    command.add_argument(
        "--key", type=parse_path, required=True, help="folder that `keys --new` made"
    )
    command.add_argument("--out", type=parse_path, required=True, help="bundle to write")
    command.add_argument(
        "--signer",
        action="append",
        default=[],
        type=_public_key,
        metavar="KEY",
        help="whole public key of a signer whose programs are signed; without it, the signers "
        "that the daemon believes",
    )


def _public_key(text: str) -> str:
    """A whole public key: anybody could make a key that has the same beginning."""
    if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected 64 hexadecimal digits, as `hpu-compile keys` prints them"
        )
    return text.lower()


def sign(arguments: argparse.Namespace) -> dict[str, Any]:
    """Signs a bundle's programs with another key, for servers that trust that key. The programs
    must come from a signer that is named, or that the daemon believes."""
    module = native.client_module()
    if not (arguments.key / "signing.key").exists():
        raise CommandError(f"{arguments.key} holds no key; hpu-compile keys --new makes one")

    believed = set(arguments.signer) or {row["public key"] for row in believed_keys()}

    def signed(kind: str, record: tuple[bytes, bytes, bytes], key: str) -> Any:
        if record[2].hex() not in believed:
            raise CommandError(
                f"the {kind} of program {key[:16]} is signed by {record[2].hex()}, whom nobody "
                f"named; if you know that key: --signer {record[2].hex()}"
            )
        if not module.check_record(kind, record):
            raise CommandError(f"the {kind} of program {key[:16]} does not fit its signature")
        return module.sign_record(kind, record[0], str(arguments.key))

    with _open(arguments.bundle) as bundle, new_bundle(arguments.out) as out:
        for program in bundle:
            out.add(
                BundledProgram(
                    program.key,
                    program.label,
                    signed("manifest", program.manifest, program.key),
                    program.blobs,
                    [signed("alias", alias, program.key) for alias in program.aliases],
                )
            )
        return {"bundle": str(arguments.out), "programs": len(bundle)}
