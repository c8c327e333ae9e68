"""Programs in the store: `hpu-compile ls`, `show`, `explain KEY`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import native
from ..dynamo.records.records import Difference, difference
from .daemon import daemon_client
from .errors import CommandError
from .start_commands import add_starts_arguments, explain_starts
from .values import parse_count

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


def _everything(programs: Iterable[dict[str, Any]]) -> Iterator[_Found]:
    """All keys of both kinds."""
    for manifest in programs:
        yield _Found(manifest, None)
        for alias in manifest["aliases"]:
            yield _Found(manifest, alias)


# At most this many of the keys that match a prefix are named.
_NAMED = 5


def _find(prefixes: Sequence[str], programs: Iterable[dict[str, Any]]) -> list[_Found]:
    """For each prefix the one stored program with a key, of either kind, that begins like this.
    Keeps only the matches, because there may be very many programs."""
    found: dict[str, list[_Found]] = {prefix: [] for prefix in prefixes}
    for candidate in _everything(programs):
        for prefix, fitting in found.items():
            if len(fitting) < _NAMED and candidate.key.startswith(prefix.lower()):
                fitting.append(candidate)
    return [_only(prefix, found[prefix]) for prefix in prefixes]


def _only(prefix: str, found: list[_Found]) -> _Found:
    if not found:
        raise CommandError(
            f"no stored program has a key that starts with {prefix!r}; see ls. What a key is made "
            "of is stored with its program: of a graph that has none, ask the process that missed "
            "it (habana_frameworks.torch.dynamo.explain())"
        )
    if len(found) > 1:
        keys = ", ".join(f.key[:16] for f in found)
        raise CommandError(f"{prefix!r} is ambiguous: {keys}")
    return found[0]


def find_manifests(
    prefixes: Sequence[str], programs: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """For each prefix the program that has a key, of either kind, with this beginning. Raises
    CommandError unless there is exactly one."""
    return [found.manifest for found in _find(prefixes, programs)]


def label_of(manifest: dict[str, Any]) -> str:
    """The label that the newest of its aliases gives it."""
    return str(manifest["aliases"][-1]["label"]) if manifest["aliases"] else ""


def add_ls_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=parse_count, default=0, help="list at most this many")


def ls(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Lists stored programs, newest first, with the front-end keys that name them."""
    now = time.time()
    for manifest in daemon_client().list(arguments.limit):
        size = manifest["program"][1] + sum(recipe[1] for recipe in manifest["recipes"])
        yield {
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


def add_show_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("key", help="key of either kind, or the beginning of one")


def show(arguments: argparse.Namespace) -> dict[str, Any]:
    """Shows one stored program, found by either of its keys: its manifest and its listing."""
    client = daemon_client()
    (manifest,) = find_manifests([arguments.key], client.list())
    loaded = client.get_content(bytes.fromhex(manifest["key"]))
    if loaded is None:
        raise CommandError(f"{manifest['key']} left the store just now")
    program = native.torch_module().Program(loaded.program, loaded.recipes, manifest["key"][:8])
    aliases = {alias["front_end_key"]: alias["label"] for alias in manifest["aliases"]}
    return {**manifest, "aliases": aliases, "text": program.text()}


def _nearest(found: _Found, programs: Iterable[dict[str, Any]]) -> tuple[str, list[Difference]]:
    """The other key of its kind with the fewest differing factors; empty if there is none."""
    best: tuple[str, list[Difference]] | None = None
    for other in _everything(programs):
        if (other.alias is None) != (found.alias is None) or other.key == found.key:
            continue
        differences = difference(found.factors, other.factors)
        if best is None or len(differences) < len(best[1]):
            best = other.key, differences
    return best or ("", [])


def add_explain_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "key", nargs="?", help="key of either kind, or the beginning of one; without it: starts"
    )
    command.add_argument("other", nargs="?", help="key to compare with")
    add_starts_arguments(command)


def explain(arguments: argparse.Namespace) -> dict[str, Any]:
    """Shows the factors of both keys of a program, and how the nearest key of the same kind
    differs; without a key, why the newest process traced its frames."""
    if arguments.key is None:
        return explain_starts(arguments.process)
    client = daemon_client()
    keys = [arguments.key, *([arguments.other] if arguments.other else [])]
    found, *others = _find(keys, client.list(upstream=True))
    if others:
        (other,) = others
        if (other.alias is None) != (found.alias is None):
            raise CommandError("one key is a content key, the other a front-end key; see ls")
        key, differences = other.key, difference(found.factors, other.factors)
    else:
        key, differences = _nearest(found, client.list(upstream=True))
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
