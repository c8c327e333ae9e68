"""`hpu-compile top`: a live table of what servers do."""

from __future__ import annotations

import argparse
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .daemon import daemon_client
from .errors import CommandError
from .tables import size
from .values import parse_seconds

if TYPE_CHECKING:
    from rich.table import Table

Counters = dict[str, float]

_URL_TIMEOUT_S = 5
_DAEMON = "daemon"


def add_top_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "urls",
        nargs="*",
        metavar="URL",
        help="metrics pages of servers, http://HOST:PORT/metrics; by default your own daemon",
    )
    command.add_argument(
        "--interval", type=parse_seconds, default=2.0, help="seconds between looks"
    )
    command.add_argument("--once", action="store_true", help="one interval, then end")


def top(arguments: argparse.Namespace) -> dict[str, Any] | str:
    """Shows requests, compilations, store and other servers live, with a column per server."""
    sources = _sources(arguments.urls)
    before = _look(sources)
    if arguments.once or arguments.json or not sys.stdout.isatty():
        time.sleep(arguments.interval)
        after = _look(sources)
        if arguments.json:
            return {name: _figures(before[name], after[name]) for name in sources}
        _print(_table(before, after))
        return ""
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        try:
            while True:
                time.sleep(arguments.interval)
                after = _look(sources)
                live.update(_table(before, after), refresh=True)
                before = after
        except KeyboardInterrupt:
            return ""


def _sources(urls: list[str]) -> dict[str, Callable[[], Counters]]:
    if not urls:
        client = daemon_client()
        return {_DAEMON: lambda: {name: float(n) for name, n in client.stats().items()}}
    names = {url: url.partition("://")[2].partition("/")[0] or url for url in urls}
    return {names[url]: (lambda url=url: _read_page(url)) for url in urls}  # type: ignore[misc]


def _read_page(url: str) -> Counters:
    """Counters of a page in Prometheus' text format, by their names in `stats`."""
    try:
        with urllib.request.urlopen(url, timeout=_URL_TIMEOUT_S) as page:
            lines = page.read().decode().splitlines()
    except (OSError, ValueError) as error:
        raise CommandError(f"{url}: {error}") from error
    counters: Counters = {}
    for line in lines:
        name, _, value = line.partition(" ")
        if name.startswith("hpu_") and "{" not in name:
            group, _, rest = name.removeprefix("hpu_").removesuffix("_total").partition("_")
            counters[f"{group}.{rest}"] = float(value)
    return counters


def _look(sources: dict[str, Callable[[], Counters]]) -> dict[str, Counters]:
    looks = {}
    for name, read in sources.items():
        looks[name] = read()
        looks[name]["time"] = time.monotonic()
    return looks


def _figures(before: Counters, after: Counters) -> dict[str, float]:
    """Rates per second over the interval, and states."""
    spent = max(after["time"] - before["time"], 1e-9)

    def rate(*names: str) -> float:
        return sum(after.get(n, 0) - before.get(n, 0) for n in names) / spent

    reads = after.get("store.get_hits", 0) - before.get("store.get_hits", 0)
    micros = after.get("store.get_micros", 0) - before.get("store.get_micros", 0)
    return {
        "hits_per_s": rate("store.get_hits"),
        "misses_per_s": rate("store.get_misses"),
        "read_ms": micros / reads / 1e3 if reads else 0.0,
        "requests_per_s": rate("compile.requests"),
        "compiled_per_s": rate("compile.compiled"),
        "coalesced_per_s": rate("compile.coalesced"),
        "running": after.get("compile.running", 0),
        "waiting": after.get("compile.waiting", 0),
        "failed": after.get("compile.failed", 0),
        "saved_s": after.get("store.saved_micros", 0) / 1e6,
        "programs": after.get("rocksdb.entries", after.get("memory.entries", 0)),
        "bytes": after.get("rocksdb.bytes", after.get("memory.bytes", 0)),
        "evictions": after.get("rocksdb.evictions", 0),
        "damaged": after.get("verifying.damaged", 0),
        "upstream_hits_per_s": rate("upstream.hits", "upstream.compiled"),
        "upstream_failures": after.get("upstream.failures", 0),
        "shared_hits_per_s": rate("shared.hits"),
        "refused": after.get("server.refused", 0),
    }


_ROWS: list[tuple[str, str, Callable[[float], str]]] = [
    ("store hits / s", "hits_per_s", "{:.1f}".format),
    ("store misses / s", "misses_per_s", "{:.1f}".format),
    ("a read takes, ms", "read_ms", "{:.2f}".format),
    ("compile requests / s", "requests_per_s", "{:.1f}".format),
    ("compiled / s", "compiled_per_s", "{:.1f}".format),
    ("joined another / s", "coalesced_per_s", "{:.1f}".format),
    ("compiling now", "running", "{:.0f}".format),
    ("waiting now", "waiting", "{:.0f}".format),
    ("failed", "failed", "{:.0f}".format),
    ("compile seconds saved", "saved_s", "{:.0f}".format),
    ("programs", "programs", "{:.0f}".format),
    ("their size", "bytes", lambda count: size(int(count))),
    ("evicted", "evictions", "{:.0f}".format),
    ("damaged", "damaged", "{:.0f}".format),
    ("from servers / s", "upstream_hits_per_s", "{:.1f}".format),
    ("servers failed", "upstream_failures", "{:.0f}".format),
    ("from the shared store / s", "shared_hits_per_s", "{:.1f}".format),
    ("calls refused", "refused", "{:.0f}".format),
]


def _table(before: dict[str, Counters], after: dict[str, Counters]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in after:
        table.add_column(name, justify="right")
    figures = {name: _figures(before[name], after[name]) for name in after}
    for text, field, show in _ROWS:
        table.add_row(text, *(show(figures[name][field]) for name in after))
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    Console().print(table)
