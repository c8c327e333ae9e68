"""Hosts as network namespaces: each has an address of its own on one switch, and nothing else."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from pathlib import Path

_numbers = itertools.count()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")


def why_none() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for command, package in (("ip", "iproute2"), ("iptables", "iptables"), ("openssl", "openssl")):
        if shutil.which(command) is None:
            return f"no {command} command: apt-get install {package}"
    try:
        with contextlib.closing(Network()) as network:
            network.host("probe").drop()
    except OSError as error:
        return f"network namespaces cannot be made here: {error}"
    return ""


class Host:
    """A host of the network; commands that it runs see its interfaces only."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name = name
        self.namespace = f"{network.prefix}-{name}"
        self.address = f"10.97.{number // 250}.{number % 250 + 1}"
        self._port = f"{network.prefix}v{number}"
        self._switch = network.switch
        _run("ip", "netns", "add", self.namespace)
        self._ip("link", "set", "lo", "up")
        _run(
            *("ip", "link", "add", self._port, "netns", self._switch, "type", "veth"),
            *("peer", "name", "eth0", "netns", self.namespace),
        )
        _run("ip", "-n", self._switch, "link", "set", self._port, "master", "switch", "up")
        self._ip("address", "add", f"{self.address}/16", "dev", "eth0")
        self._ip("link", "set", "eth0", "up")

    def _ip(self, *arguments: str) -> None:
        _run("ip", "-n", self.namespace, *arguments)

    def command(self, *words: str | Path) -> list[str]:
        """The command that runs `words` on this host. The process that it starts becomes that of
        `words` itself."""
        return ["ip", "netns", "exec", self.namespace, *map(str, words)]

    def drop(self) -> None:
        """From now on the host is a black hole: no packet comes in or goes out."""
        for chain in ("INPUT", "OUTPUT"):
            _run(
                *self.command("iptables", "-w", "-A", chain, "!", *_direction(chain), "-j", "DROP")
            )

    def undrop(self) -> None:
        _run(*self.command("iptables", "-w", "-F"))

    def etc(self, name: str, text: str) -> None:
        """Makes a file of /etc for commands that start later. Those see later changes of it too."""
        path = Path("/etc/netns") / self.namespace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def close(self) -> None:
        shutil.rmtree(Path("/etc/netns") / self.namespace, ignore_errors=True)
        _run("ip", "netns", "delete", self.namespace)


def _direction(chain: str) -> tuple[str, str]:
    return ("-i", "lo") if chain == "INPUT" else ("-o", "lo")


class Network:
    """A switch and the hosts at it. close() removes all of them."""

    def __init__(self) -> None:
        self.prefix = f"h{os.getpid()}n{next(_numbers)}"[-11:]
        self.switch = f"{self.prefix}-switch"
        self.hosts: list[Host] = []
        _run("ip", "netns", "add", self.switch)
        try:
            _run("ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
            _run("ip", "-n", self.switch, "link", "set", "switch", "up")
        except OSError:
            self.close()
            raise

    def host(self, name: str) -> Host:
        made = Host(self, name, len(self.hosts))
        self.hosts.append(made)
        return made

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        _run("ip", "netns", "delete", self.switch)
