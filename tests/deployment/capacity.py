"""Measures what a server takes: memory of it and of its workers, bytes and compile time of
programs, after each of some models. Prints the table of docs/operations_cluster.md.

Usage: ./dev python tests/deployment/capacity.py [MODEL ...]     models of `./dev demo --model`
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from deployed_server import ROOT, Server, children, figure, free_port

from habana_frameworks.torch import native

_MODELS = ["bert-base", "gpt2", "resnet50"]


def _megabytes(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) // 1024


def _row(name: str, server: Server, port: int) -> str:
    pid = server.process.pid
    values = [
        f"{_megabytes(pid)} MB",
        f"{max(map(_megabytes, children(pid)))} MB",
        f"{figure(port, 'hpu_rocksdb_entries'):.0f}",
        f"{figure(port, 'hpu_rocksdb_bytes') / 1000:.0f} kB",
        f"{figure(port, 'hpu_rocksdb_disk_bytes') / 1000:.0f} kB",
        f"{figure(port, 'hpu_compile_micros_total') / 1e6:.2f} s",
    ]
    return " | ".join(["", name, *values, ""]).strip()


def main() -> None:
    print(
        "| after | server | largest worker | programs | before compression | files | compile time |"
    )
    print("|---|---|---|---|---|---|---|")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hpu-") as folder:
        cache = Path(folder) / "cache"
        command = [native.server_binary(), "--cache-dir", str(cache)]
        command += ["--metrics", f"127.0.0.1:{port}"]
        server = Server(command, Path(folder))
        print(_row("start", server, port))
        for model in sys.argv[1:] or _MODELS:
            subprocess.run(
                [sys.executable, "examples/sentence_similarity.py", "--json", "--model", model],
                cwd=ROOT,
                env={**os.environ, "HPU_CACHE_DIR": str(cache)},
                check=True,
                capture_output=True,
            )
            print(_row(model, server, port), flush=True)
        server.stop()
        server = Server(command, Path(folder))
        print(_row("a restart", server, port))
        server.stop()


if __name__ == "__main__":
    main()
