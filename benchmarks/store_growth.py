"""Measures what a store of many small programs costs.

The figures are how long it takes to open and to list, how much memory its server needs, and how
evictions affect writers.

./dev python benchmarks/store_growth.py [--programs 10000,100000,1000000]

The store is filled by hpu_store_fill (tests/cluster) as a server's writers would fill it, with each
write synced, but without server and compiler between. --through-the-server fills it by clients that
have programs compiled. --store FOLDER: uses up a store that hpu_store_fill has filled.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / f) for f in ("tests/cluster", "tests/python", "examples/cluster")]

from cluster import Server, client_command, wait_until  # noqa: E402

from habana_frameworks.torch import native  # noqa: E402

RESULTS = ROOT / "benchmarks/results/store-growth.json"
FILL = ROOT / "build/release/tests/cluster/hpu_store_fill"
WRITERS = 32


def _write(server: Server, first: int, count: int) -> list[float]:
    """The milliseconds that each new program took."""
    options = {"in_order": True, "no_check": True, "timeout_ms": 120_000}
    socket = f"unix:{server.socket}"
    each = count // WRITERS
    writers = [
        subprocess.Popen(
            client_command(socket, first=first + i * each, count=each, **options),
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(WRITERS)
    ]
    found = [json.loads(line) for w in writers for line in w.communicate()[0].splitlines()]
    errors = [o for o in found if o["error"]]
    if errors or len(found) != each * WRITERS:
        raise RuntimeError(f"{len(found)} of {count} written; {errors[:1]}")
    return sorted(o["ms"] for o in found)


def _start(server: Server) -> float:
    """Seconds until the server answers; its files show earlier that it is starting."""
    began = time.monotonic()
    server.launch()
    wait_until(lambda: _answers(server) or not server.running().alive, "it opens", 600)
    assert server.running().alive, server.log()[-2000:]
    return time.monotonic() - began


def _answers(server: Server) -> bool:
    try:
        client = native.client_module().CompileClient(str(server.socket))
        return bool(client.hello()["pid"] == server.running().pid)
    except (OSError, RuntimeError):
        return False


def _stop(server: Server) -> None:
    server.running().terminate(patience=300)


def _fill(server: Server, programs: int, through_the_server: bool) -> float:
    """The number of programs per second."""
    if through_the_server:
        _start(server)
        began = time.monotonic()
        _write(server, 0, programs)
        rate = programs / (time.monotonic() - began)
        _stop(server)
        return rate
    folder = server.folder / "store"
    folder.mkdir(mode=0o700)
    command = [str(FILL), str(folder), str(programs), str(WRITERS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _list(server: Server) -> tuple[int, float, float, int]:
    """The number of programs, the seconds until the first and the last of them, and the bytes that
    this process took."""
    client = native.client_module().CompileClient(str(server.socket), call_timeout_s=300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    programs = client.list()
    count = sum(1 for _ in itertools.islice(programs, 1))
    first = time.monotonic() - began
    count += sum(1 for _ in programs)
    last = time.monotonic() - began
    return count, first, last, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def measure(programs: int, store: Path | None, through_the_server: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="hpuc-", ignore_cleanup_errors=True) as folder:
        server = Server(None, Path(folder) / "server", ["--log-level", "3", "--max-size", "1TB"])
        try:
            if store is not None:
                shutil.move(store, server.folder / "store")
            rate = float("nan") if store else _fill(server, programs, through_the_server)
            open_s = _start(server)
            # A program is found at once; writing or listing waits until the index is read.
            began = time.monotonic()
            _write(server, programs * 2, WRITERS)
            index_s = open_s + time.monotonic() - began
            listed, first_s, last_s, list_kib = _list(server)
            resident = server.running().resident_bytes()
            plain = _write(server, programs * 3, 2000)
            size = server.counters()["rocksdb.bytes"]
            _stop(server)
            # The store is now as full as it may be, so each new program evicts an old one.
            server.options[-1] = str(size)
            _start(server)
            _write(server, programs * 4, WRITERS)
            before = server.counters()["rocksdb.evictions"]
            evicting = _write(server, programs * 5, 2000)
            evicted = server.counters()["rocksdb.evictions"] - before
        finally:
            server.kill()
    return {
        "programs": programs,
        "filled_per_second": rate,
        "open_s": open_s,
        "index_s": index_s,
        "listed": listed,
        "list_first_s": first_s,
        "list_s": last_s,
        "list_client_mib": list_kib / 1024,
        "resident_mib": resident / 2**20,
        "write_p50_ms": plain[len(plain) // 2],
        "write_p99_ms": plain[int(len(plain) * 0.99)],
        "evicting_p50_ms": evicting[len(evicting) // 2],
        "evicting_p99_ms": evicting[int(len(evicting) * 0.99)],
        "evicting_max_ms": evicting[-1],
        "evicted": evicted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="10000,100000")
    parser.add_argument("--through-the-server", action="store_true")
    parser.add_argument("--store", type=Path)
    arguments = parser.parse_args()
    rows = [
        measure(int(word), arguments.store, arguments.through_the_server)
        for word in arguments.programs.split(",")
    ]
    RESULTS.write_text(json.dumps(rows) + "\n")
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{value:.4g}" for value in row.values()) + " |")


if __name__ == "__main__":
    main()
