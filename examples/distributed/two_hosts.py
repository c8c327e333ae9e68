"""Runs ddp.py on two hosts, which are two network namespaces of this one, joined by a cable.

    sudo ./dev python examples/distributed/two_hosts.py

The ranks share no memory then and exchange data through libfabric over TCP (apt install
libfabric1). On two real hosts, run the last command that this program prints on each of them, with
that host's --node-rank and the address of the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

PROGRAM = Path(__file__).with_name("ddp.py")
ADDRESSES = ("10.251.0.1", "10.251.0.2")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def connect(names: list[str], exits: ExitStack) -> None:
    """Makes a network namespace of each name, and a cable between both."""
    for name in names:
        ip("netns", "add", name)
        exits.callback(ip, "netns", "delete", name)
    # fmt: off
    ip("link", "add", "eth0", "netns", names[0], "type", "veth",
       "peer", "name", "eth0", "netns", names[1])
    # fmt: on
    for name, address in zip(names, ADDRESSES, strict=True):
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")


def launch(name: str, node: int) -> subprocess.Popen[bytes]:
    # fmt: off
    command = [
        sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", "2",
        "--nproc-per-node", "1", "--node-rank", str(node), "--master-addr", ADDRESSES[0],
        "--master-port", "29500", str(PROGRAM),
    ]
    # fmt: on
    print(f"{name}:", *command, flush=True)
    interface = {"HCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    return subprocess.Popen(["ip", "netns", "exec", name, *command], env=os.environ | interface)


def main() -> None:
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root: sudo ./dev python " + sys.argv[0])
    names = [f"hpu-host-{letter}-{os.getpid()}" for letter in "ab"]
    with ExitStack() as exits:
        connect(names, exits)
        hosts = [launch(name, node) for node, name in enumerate(names)]
        for host in hosts:
            exits.callback(host.kill)
        codes = [host.wait() for host in hosts]
    if any(codes):
        raise SystemExit(f"the hosts ended with {codes}")


if __name__ == "__main__":
    main()
