"""Programs in the store: `hpu-compile ls`, `show`, `explain`."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

from .. import native
from ..dynamo.records import difference, nearest
from .daemon import daemon_client
from .errors import CommandError

Factors = list[tuple[str, str]]


@dataclass(frozen=True)
class _Found:
    """A stored program, and the alias by whose front-end key it was found."""

    manifest: dict[str, Any]
    alias: dict[str, Any] | None

    @property
    def key(self) -> str:
        return str(self.alias["front_end_key"] if self.alias else self.manifest["key"])

    @property
    def factors(self) -> Factors:
        return _factors(self.alias or self.manifest)


def _factors(described: dict[str, Any]) -> Factors:
    return [(str(name), str(value)) for name, value in described["factors"]]


def _everything(programs: list[dict[str, Any]]) -> list[_Found]:
    """All keys of both kinds."""
    found = [_Found(m, None) for m in programs]
    return found + [_Found(m, alias) for m in programs for alias in m["aliases"]]


def _find(prefix: str, everything: list[_Found]) -> _Found:
    """The one stored program with a key, of either kind, that starts with `prefix`."""
    found = [f for f in everything if f.key.startswith(prefix.lower())]
    if not found:
        raise CommandError(
            f"no stored program has a key that starts with {prefix!r}; see ls. What a key is made "
            "of is stored with its program: of a graph that has none, ask the process that missed "
            "it (habana_frameworks.torch.dynamo.explain())"
        )
    if len(found) > 1:
        keys = ", ".join(f.key[:16] for f in found[:5])
        raise CommandError(f"{prefix!r} is ambiguous: {keys}")
    return found[0]


def find_manifest(prefix: str, programs: list[dict[str, Any]]) -> dict[str, Any]:
    """The one of these that has a key, of either kind, with this beginning. CommandError."""
    return _find(prefix, _everything(programs)).manifest


def label_of(manifest: dict[str, Any]) -> str:
    """What the newest of its aliases calls it."""
    return str(manifest["aliases"][-1]["label"]) if manifest["aliases"] else ""


def add_ls_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=int, default=0, help="at most so many")


def ls(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Stored programs, newest first, with the front-end keys that name them."""
    now = time.time()
    rows = []
    for manifest in daemon_client().list(arguments.limit):
        size = manifest["program"][1] + sum(recipe[1] for recipe in manifest["recipes"])
        rows.append(
            {
                "label": label_of(manifest),
                "key": manifest["key"],
                "front_end_keys": [alias["front_end_key"] for alias in manifest["aliases"]],
                "created": manifest["created"],
                "age_s": max(0, int(now - manifest["created"])),
                "recipes": len(manifest["recipes"]),
                "bytes": size,
                "hits": manifest["hits"],
                "pinned": manifest["pinned"],
                "compile_ms": manifest["compile_ms"],
                "device": manifest["device_kind"],
                "isa_level": manifest["isa_level"],
            }
        )
    return rows


def add_show_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("key", help="key of either kind, or the beginning of one")


def show(arguments: argparse.Namespace) -> dict[str, Any]:
    """One stored program, by either of its keys: its manifest and its listing."""
    client = daemon_client()
    manifest = find_manifest(arguments.key, client.list())
    loaded = client.get_content(bytes.fromhex(manifest["key"]))
    if loaded is None:
        raise CommandError(f"{manifest['key']} left the store just now")
    program = native.torch_module().Program(loaded.program, loaded.recipes, manifest["key"][:8])
    aliases = {alias["front_end_key"]: alias["label"] for alias in manifest["aliases"]}
    return {**manifest, "aliases": aliases, "text": program.text()}


def add_explain_arguments(command: argparse.ArgumentParser) -> None:
    add_show_arguments(command)
    command.add_argument("other", nargs="?", help="key to compare with")


def explain(arguments: argparse.Namespace) -> dict[str, Any]:
    """What both keys of a program are made of, and how the nearest key of the same kind differs."""
    everything = _everything(daemon_client().list(upstream=True))
    found = _find(arguments.key, everything)
    others = {
        f.key: f.factors
        for f in everything
        if (f.alias is None) == (found.alias is None) and f.key != found.key
    }
    key, differences = nearest(found.factors, others) or ("", [])
    if arguments.other:
        other = _find(arguments.other, everything)
        if (other.alias is None) != (found.alias is None):
            raise CommandError("one key is a content key, the other a front-end key; see ls")
        key, differences = other.key, difference(found.factors, other.factors)
    alias = found.alias or next(iter(reversed(found.manifest["aliases"])), None)
    return {
        "label": alias["label"] if alias else "",
        "front_end_key": alias["front_end_key"] if alias else "",
        "factors": dict(_factors(alias)) if alias else {},
        "content_key": found.manifest["key"],
        "content_factors": dict(_factors(found.manifest)),
        "nearest": key,
        "differences": [vars(d) for d in differences],
    }
