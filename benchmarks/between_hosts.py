#!/usr/bin/env python3
"""An all-reduce between two hosts beside plain TCP, and beside Gloo. As root.

    between_hosts.py [--rounds N] [--json]

The hosts are two network namespaces of this one, joined by a cable. "plain TCP" is what both take
to send each other as many bytes at the same time as an all-reduce of two ranks must move: the whole
buffer in each direction, with one connection and one thread for each. The contenders alternate;
every round has fresh processes. A time is the median over calls; the slower host counts. Raw
results go to benchmarks/results/between_hosts.json. All times are CPU times.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import torch
import torch.distributed as dist
from tables import number, table

RESULTS = Path(__file__).resolve().parent / "results/between_hosts.json"
ADDRESSES = ("10.252.0.1", "10.252.0.2")
SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
CALLS = {"4 KiB": 300, "1 MiB": 100, "64 MiB": 8}
CONTENDERS = ("hccl", "gloo", "plain TCP")


def connections(rank: int) -> tuple[socket.socket, socket.socket]:
    """One to send by, and one to receive by."""
    if rank == 0:
        with socket.create_server((ADDRESSES[0], 29501)) as server:
            first, second = server.accept()[0], server.accept()[0]
        return first, second
    made = []
    while len(made) < 2:
        try:
            made.append(socket.create_connection((ADDRESSES[0], 29501)))
        except ConnectionRefusedError:
            time.sleep(0.05)  # the other host has not begun to listen
    return made[1], made[0]


def exchange(sending: socket.socket, receiving: socket.socket, out: bytes, into: bytearray) -> None:
    sender = threading.Thread(target=sending.sendall, args=(out,))
    sender.start()
    view, left = memoryview(into), len(into)
    while left > 0:
        left -= receiving.recv_into(view[len(into) - left :])
    sender.join()


def run_rank(contender: str, rank: int) -> None:
    torch.set_num_threads(1)
    found = {}
    if contender == "plain TCP":
        sending, receiving = connections(rank)
        for name, size in SIZES.items():
            out, into, times = bytes(size), bytearray(size), []
            for _ in range(CALLS[name]):
                begin = time.perf_counter()
                exchange(sending, receiving, out, into)
                times.append(time.perf_counter() - begin)
            found[name] = statistics.median(times)
    else:
        dist.init_process_group(
            contender, init_method=f"tcp://{ADDRESSES[0]}:29502", rank=rank, world_size=2
        )
        device = "hpu" if contender == "hccl" else "cpu"
        for name, size in SIZES.items():
            x, times = torch.ones(size // 4, device=device), []
            for _ in range(CALLS[name] + 2):
                begin = time.perf_counter()
                dist.all_reduce(x)
                if device == "hpu":
                    torch.hpu.synchronize()
                times.append(time.perf_counter() - begin)
            found[name] = statistics.median(times[2:])
        dist.destroy_process_group()
    print(json.dumps(found))


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def hosts(exits: ExitStack) -> list[str]:
    names = [f"hpu-bench-{letter}-{os.getpid()}" for letter in "ab"]
    for name in names:
        ip("netns", "add", name)
        exits.callback(ip, "netns", "delete", name)
    cable = ["eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1]]
    ip("link", "add", *cable)
    for name, address in zip(names, ADDRESSES, strict=True):
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
    return names


def measure(contender: str, names: list[str]) -> dict[str, float]:
    variables = {
        "HCCL_SOCKET_IFNAME": "eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "HPU_EMULATOR_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    processes = []
    for rank, name in enumerate(names):
        own = [sys.executable, "-W", "ignore", __file__, "--rank", str(rank), contender]
        processes.append(
            subprocess.Popen(
                ["ip", "netns", "exec", name, *own],
                env=os.environ | variables,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    return {size: max(each[size] for each in found) for size in SIZES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return run_rank(arguments.rank[1], int(arguments.rank[0]))
    rounds: dict[str, list[dict[str, float]]] = {contender: [] for contender in CONTENDERS}
    with ExitStack() as exits:
        names = hosts(exits)
        for number_of_round in range(arguments.rounds):
            for contender in CONTENDERS:
                print(f"round {number_of_round + 1}: {contender}", file=sys.stderr)
                rounds[contender].append(measure(contender, names))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rounds, indent=1))
    if arguments.json:
        print(json.dumps(rounds))
        return None
    rows = []
    for size in SIZES:
        times = {c: statistics.median(each[size] for each in rounds[c]) for c in CONTENDERS}
        milliseconds = [number(times[contender] * 1e3) for contender in CONTENDERS]
        speed = f"{times['plain TCP'] / times['hccl']:.2f}"
        rows.append([f"all_reduce {size}", *milliseconds, speed])
    columns = ["call", *(f"{contender}, ms" for contender in CONTENDERS), "of plain TCP's speed"]
    print("\n".join(table(columns, rows)))
    return None


if __name__ == "__main__":
    main()
