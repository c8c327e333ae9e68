"""Runs the server of an OCI image in the image's root and compiles through it from this host.

The server runs as the image says (user, entry point, volume) and with the arguments of an operator.
When it is started anew, it has the program from the volume. It is isolated by chroot and a mount
namespace, so no container runtime is needed.

Usage: python container_from_image.py IMAGE     an OCI image layout; as root; needs buildah
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deployed_server import PROGRAM, Folders, Host, Server, figure, free_port

from habana_frameworks.torch import native

_STATE, _CONFIGURATION = "/var/lib/hpu-compile-server", "/etc/hpu"


_MOUNTED = """
set -e
mount --bind "$STATE" "$IMAGE_ROOT$STATE_THERE"
mkdir -p "$IMAGE_ROOT$CONFIGURATION_THERE"
mount --bind "$CONFIGURATION" "$IMAGE_ROOT$CONFIGURATION_THERE"
mount --rbind /dev "$IMAGE_ROOT/dev"
mount -t proc proc "$IMAGE_ROOT/proc"
exec chroot --userspec="$IMAGE_USER" "$IMAGE_ROOT" "$@"
"""


class Container:
    """A container of an image, in a storage of its own, on this host's network."""

    def __init__(self, layout: Path, work: Path) -> None:
        storage = ["--root", work / "storage", "--runroot", work / "storage.run"]
        self._buildah = ["buildah", *map(str, storage), "--storage-driver", "vfs"]
        container = self._say("from", "-q", f"oci:{layout}:latest").strip()
        self.settings = json.loads(self._say("inspect", container))["OCIv1"]["config"]
        self.root = self._say("mount", container).strip()
        self.folders = Folders(work)
        self.folders.make_certificate()
        user = self.settings["User"]
        for folder in (self.folders.state, self.folders.configuration):
            subprocess.run(["chown", "-R", user, folder], check=True)

    def _say(self, *words: str) -> str:
        command = [*self._buildah, *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def command(self, *arguments: str) -> list[str]:
        """The command that starts the entry point."""
        settings = {
            "IMAGE_ROOT": self.root,
            "IMAGE_USER": self.settings["User"],
            "STATE": self.folders.state,
            "STATE_THERE": _STATE,
            "CONFIGURATION": self.folders.configuration,
            "CONFIGURATION_THERE": _CONFIGURATION,
        }
        environment = [f"{name}={value}" for name, value in settings.items()]
        isolated = ["unshare", "--mount", "--propagation", "private"]
        words = [*self.settings["Entrypoint"], *arguments]
        return ["env", *environment, *isolated, "sh", "-c", _MOUNTED, "sh", *words]


def _use(container: Container, work: Path) -> None:
    port, metrics = free_port(), free_port()
    options = {
        "--listen": f"tls://127.0.0.1:{port}",
        "--callers": f"{_CONFIGURATION}/callers",
        "--tls-certificate": f"{_CONFIGURATION}/tls/tls.crt",
        "--tls-key": f"{_CONFIGURATION}/tls/tls.key",
        "--metrics": f"127.0.0.1:{metrics}",
    }
    command = container.command(*(word for pair in options.items() for word in pair))
    server = Server(command, work)
    (work / "host").mkdir()
    host = Host(work / "host", container.folders, port)
    try:
        host.run_model()
        assert figure(metrics, "hpu_compile_compiled_total") == 1, server.log.read_text()
        assert figure(host.metrics, "hpu_upstream_compiled_total") == 1
        uid, *_ = container.settings["User"].split(":")
        assert Path(f"/proc/{server.process.pid}").stat().st_uid == int(uid)
        assert server.stop() == 0, server.log.read_text()
        server = Server(command, work)
        assert figure(metrics, "hpu_rocksdb_entries") == 1, "the program was kept"
    finally:
        host.daemon.stop()
        assert server.stop() == 0, server.log.read_text()


def main() -> None:
    layout = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as name:
        work = Path(name)
        work.chmod(0o755)
        container = Container(layout, work)
        assert container.settings["Entrypoint"][0] == PROGRAM
        assert container.settings["User"] == "10001:10001"
        assert list(container.settings["Volumes"]) == [_STATE]
        builds = [
            subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.strip()
            for command in (
                [native.server_binary(), "--print-build-id"],
                container.command("--print-build-id"),
            )
        ]
        assert builds[0] == builds[1], "another build than this host's clients"
        _use(container, work)
    print("the image's server compiles for this host and keeps what it made in its volume")


if __name__ == "__main__":
    sys.exit(main() if os.geteuid() == 0 else "run this as root")
