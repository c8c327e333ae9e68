"""What a store of many small programs costs: how fast it fills, how long it takes to open, to list,
and what evictions do to those who write.

    ./dev python benchmarks/store_growth.py [--programs 10000,100000]     (1000000: slow)
"""

from __future__ import annotations

import argparse
import json
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
WRITERS = 32


def _write(server: Server, first: int, count: int) -> list[float]:
    """Milliseconds of each new program."""
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
    began = time.monotonic()
    server.launch()
    wait_until(server.serves, "it opens", 600)
    return time.monotonic() - began


def measure(programs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="hpuc-", ignore_cleanup_errors=True) as folder:
        server = Server(None, Path(folder) / "server", ["--log-level", "3"])
        try:
            _start(server)
            began = time.monotonic()
            filled = _write(server, 0, programs)
            fill_s = time.monotonic() - began
            size = server.counters()["rocksdb.bytes"]
            server.running().terminate()
            open_s = _start(server)
            client = native.client_module().CompileClient(str(server.socket), call_timeout_s=300)
            began = time.monotonic()
            listed = len(client.list())
            list_s = time.monotonic() - began
            resident = server.running().resident_bytes()
            server.running().terminate()
            # As full as it may be: each new program drives an old one out.
            server.options += ["--max-size", str(size)]
            _start(server)
            evicting = _write(server, programs, max(programs // 10, 1000))
            evicted = server.counters()["rocksdb.evictions"]
        finally:
            server.kill()
    return {
        "programs": programs,
        "per_second": programs / fill_s,
        "open_s": open_s,
        "list_s": list_s,
        "listed": listed,
        "resident_mib": resident / 2**20,
        "write_p50_ms": filled[len(filled) // 2],
        "write_p99_ms": filled[int(len(filled) * 0.99)],
        "evicting_p50_ms": evicting[len(evicting) // 2],
        "evicting_p99_ms": evicting[int(len(evicting) * 0.99)],
        "evicting_max_ms": evicting[-1],
        "evicted": evicted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="10000,100000")
    rows = [measure(int(word)) for word in parser.parse_args().programs.split(",")]
    RESULTS.write_text(json.dumps(rows) + "\n")
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{value:.4g}" for value in row.values()) + " |")


if __name__ == "__main__":
    main()
