"""Installs the server's Debian package in a new Debian 12 that has nothing of ours, runs its unit's
command line there as the package's user, compiles through it from this host, upgrades, removes and
purges it.

Usage: python deb_in_empty_root.py ROOT DEB     as root; needs debootstrap and the host's network
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deployed_server import (
    PROGRAM,
    Folders,
    Host,
    Server,
    figure,
    free_port,
    network_configuration,
    unit_command,
)

from habana_frameworks.torch import native

_PACKAGE = "hpu-compile-server"
_CONFIGURATION = f"etc/{_PACKAGE}/server.conf"


class EmptyRoot:
    """A Debian of its own, with the package sources of this host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", str(root), self._mirror()], check=True
        )
        sources = root / "etc/apt"
        (sources / "sources.list").unlink(missing_ok=True)
        for name in ("sources.list", "sources.list.d"):
            there = Path("/etc/apt") / name
            if there.is_dir():
                shutil.copytree(there, sources / name, dirs_exist_ok=True)
            elif there.exists():
                shutil.copy(there, sources)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        self.run("apt-get", "update", "-q")

    @staticmethod
    def _mirror() -> str:
        wanted = ["Created-By: Packages", "Codename: bookworm"]
        return subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()[0]

    def command(self, *words: str, user: str = "") -> list[str]:
        """Runs words there; the process becomes theirs, and what was mounted ends with it."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        mount = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev"
        return [
            *("unshare", "--mount", "bash", "-c"),
            f'{mount} && exec chroot {self.root} "$@"',
            *("bash", *as_user, *words),
        ]

    def run(self, *words: str) -> str:
        done = subprocess.run(
            self.command(*words),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    def traces(self) -> set[str]:
        """What is there by the package's name, or its user's."""
        found = {
            str(path.relative_to(self.root))
            for folder in ("etc", "lib", "usr", "var/lib", "run", "home")
            for path in (self.root / folder).rglob("*hpu*")
        }
        # dpkg keeps the names of what it has removed and not purged.
        users = (self.root / "etc/passwd").read_text() + (self.root / "etc/group").read_text()
        return found | ({"a user"} if "hpu" in users else set())


def _serve(system: EmptyRoot, work: Path) -> None:
    """The unit's command, as its user; a host compiles through it."""
    folders = Folders(system.root, is_system=True)
    folders.make_certificate()
    port, metrics = free_port(), free_port()
    (system.root / _CONFIGURATION).write_text(network_configuration(port, metrics))
    # What an operator does, and what systemd does: StateDirectory, RuntimeDirectory.
    system.run("chgrp", "-R", "hpu-compile", f"/etc/{_PACKAGE}")
    system.run("chmod", "-R", "g+rX", f"/etc/{_PACKAGE}")
    system.run("chown", "hpu-compile:", f"/var/lib/{_PACKAGE}", f"/run/{_PACKAGE}")
    system.run(*unit_command("ExecStartPre"))
    (work / "host").mkdir()
    server = Server(system.command(*unit_command("ExecStart"), user="hpu-compile"), work)
    host = Host(work / "host", folders, port)
    try:
        host.run_model()
        assert figure(metrics, "hpu_compile_compiled_total") == 1, server.log.read_text()
        assert figure(host.metrics, "hpu_upstream_compiled_total") == 1
    finally:
        host.daemon.stop()
        server.stop()


def main() -> None:
    system, package = EmptyRoot(Path(sys.argv[1]).absolute()), Path(sys.argv[2])
    before = system.traces()
    shutil.copy(package, system.root / package.name)
    system.run("apt-get", "install", "-y", "-q", "--no-install-recommends", f"/{package.name}")
    own = subprocess.run(
        [native.server_binary(), "--print-build-id"], check=True, capture_output=True, text=True
    ).stdout
    assert system.run(PROGRAM, "--print-build-id") == own, "another build than this host's clients"
    with tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as work:
        _serve(system, Path(work))
    kept = (system.root / _CONFIGURATION).read_text()
    system.run("dpkg", "--install", f"/{package.name}")
    assert (system.root / _CONFIGURATION).read_text() == kept, "an upgrade changed server.conf"
    system.run("apt-get", "remove", "-y", "-q", _PACKAGE)
    assert (system.root / _CONFIGURATION).read_text() == kept
    assert (system.root / f"var/lib/{_PACKAGE}/store/signing.key").exists()
    assert not (system.root / PROGRAM[1:]).exists()
    system.run("apt-get", "purge", "-y", "-q", _PACKAGE)
    shutil.rmtree(system.root / f"run/{_PACKAGE}")  # systemd's at the stop of a service
    assert system.traces() == before, system.traces() - before
    shutil.rmtree(system.root)
    print(f"build {own.strip()[:16]} of {native.server_binary()}")
    print("the package works where there is nothing but Debian, and leaves nothing")


if __name__ == "__main__":
    sys.exit(main() if os.geteuid() == 0 else "run this as root")
