"""The machines of a cluster: this machine's loopback, or network namespaces."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Protocol

from network import Network, why_none

_NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"


class Machine(Protocol):
    address: str

    def command(self, *words: str | Path) -> list[str]:
        """The command that runs `words` on that machine."""


class Machines(Protocol):
    scheme: str  # begins the addresses of compile servers
    ca: Path | None  # the authority of their certificates; None where there are none

    def machine(self, name: str) -> Machine: ...
    def port(self) -> int:
        """A port that nothing listens on."""

    def certificate(self, name: str, address: str) -> tuple[Path, Path]:
        """Certificate and key of a server."""

    def close(self) -> None: ...


class _ThisMachine:
    address = "127.0.0.1"

    def command(self, *words: str | Path) -> list[str]:
        return [str(word) for word in words]


class Loopback:
    """Everything is on this machine, over plain TCP, which is allowed on the loopback only."""

    scheme = "tcp"
    ca = None

    def machine(self, _: str) -> Machine:
        return _ThisMachine()

    def port(self) -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def certificate(self, name: str, address: str) -> tuple[Path, Path]:
        raise NotImplementedError("plain TCP has no certificates")

    def close(self) -> None:
        pass


class Namespaces:
    """Each machine is a network namespace at one switch; TLS uses an authority of this folder."""

    scheme = "tls"

    def __init__(self, folder: Path) -> None:
        if why := why_none():
            raise SystemExit(why)
        self._network = Network()
        self._port = 8470
        self._folder = folder
        self.ca: Path | None = folder / "ca.pem"
        self._openssl(f"req -x509 {_NEW_KEY} -subj /CN=cluster-ca -keyout ca.key -out ca.pem")

    def machine(self, name: str) -> Machine:
        return self._network.host(name)

    def port(self) -> int:
        self._port += 1
        return self._port

    def certificate(self, name: str, address: str) -> tuple[Path, Path]:
        (self._folder / f"{name}.ext").write_text(f"subjectAltName=IP:{address}\n")
        self._openssl(f"req {_NEW_KEY} -subj /CN={name} -keyout {name}.key -out {name}.csr")
        self._openssl(
            f"x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -in {name}.csr"
            f" -extfile {name}.ext -out {name}.pem"
        )
        return self._folder / f"{name}.pem", self._folder / f"{name}.key"

    def _openssl(self, arguments: str) -> None:
        command = ["openssl", *arguments.split()]
        subprocess.run(command, cwd=self._folder, check=True, capture_output=True)

    def close(self) -> None:
        self._network.close()
