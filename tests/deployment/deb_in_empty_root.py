"""Installs the server's Debian package in a new Debian 12 without anything of ours, boots that
Debian's systemd, starts the unit, compiles through it from this host, and then kills, upgrades,
removes and purges it.

Usage: python deb_in_empty_root.py ROOT DEB     as root; needs debootstrap and the host's network
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deployed_server import (
    PROGRAM,
    Folders,
    Host,
    children,
    figure,
    free_port,
    network_configuration,
)
from eventually import wait_until

from habana_frameworks.torch import native

_PACKAGE = "hpu-compile-server"
_CONFIGURATION = f"etc/{_PACKAGE}/server.conf"
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
_NAMESPACES = ("--mount", "--pid", "--cgroup", "--uts", "--ipc")


class EmptyRoot:
    """A Debian of its own, with the package sources of this host, and its systemd."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        made = ["debootstrap", "--variant=minbase", "--include=systemd", "bookworm", str(root)]
        subprocess.run([*made, self._mirror()], check=True)
        for name in ("sources.list", "sources.list.d"):
            there, here = Path("/etc/apt") / name, root / "etc/apt" / name
            if there.is_dir():
                shutil.copytree(there, here, dirs_exist_ok=True)
            elif there.exists():
                shutil.copy(there, here)
            else:
                here.unlink(missing_ok=True)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        boot = Path(__file__).with_name("boot_root.sh")
        self.process = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--kill-child", boot, root],
            stdout=subprocess.DEVNULL,
        )
        self._wait_for_boot()

    @staticmethod
    def _mirror() -> str:
        wanted = ["Created-By: Packages", "Codename: bookworm"]
        return subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()[0]

    def _wait_for_boot(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, "the root does not boot"
            if not children(self.process.pid):
                return False
            # "degraded" means that some unit has failed, for lack of a console in this root.
            state = self._there("systemctl", "is-system-running").stdout.strip()
            return state in {"running", "degraded"}

        wait_until(is_ready, "the root gets ready")

    def _there(self, *words: str) -> subprocess.CompletedProcess[str]:
        (init,) = children(self.process.pid)
        return subprocess.run(
            ["nsenter", "--target", str(init), *_NAMESPACES, *words],
            env=_ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )

    def run(self, *words: str) -> str:
        done = self._there(*words)
        assert done.returncode == 0, (words, done.stdout)
        return done.stdout

    def unit(self, name: str) -> str:
        """A property of the server's unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", _PACKAGE).strip()

    def log(self) -> str:
        return self.run("journalctl", "--no-pager", f"--unit={_PACKAGE}")

    def traces(self) -> set[str]:
        """The files that exist under the package's name, and the package's user."""
        found = {
            str(path.relative_to(self.root))
            for folder in ("etc", "lib", "usr", "var/lib", "home")
            for path in (self.root / folder).rglob("*hpu*")
        }
        users = (self.root / "etc/passwd").read_text() + (self.root / "etc/group").read_text()
        running = self.run("systemctl", "list-units", "--all", "--no-legend", "*hpu*").strip()
        return found | ({"a user"} if "hpu" in users else set()) | ({running} - {""})

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.root)


def _start(system: EmptyRoot, work: Path) -> tuple[Host, int]:
    """Configures and starts the unit, as an operator does."""
    folders = Folders(system.root, is_system=True)
    folders.make_certificate()
    port, metrics = free_port(), free_port()
    (system.root / _CONFIGURATION).write_text(network_configuration(port, metrics))
    system.run("chgrp", "-R", "hpu-compile", f"/etc/{_PACKAGE}")
    system.run("chmod", "-R", "g+rX", f"/etc/{_PACKAGE}")
    system.run("systemctl", "enable", "--now", _PACKAGE)
    assert system.unit("ActiveState") == "active", system.log()
    return Host(work, folders, port), metrics


def _restarted(system: EmptyRoot, before: str) -> str:
    def is_restarted() -> bool:
        new = system.unit("MainPID") not in {before, "0"}
        return new and system.unit("SubState") == "running"

    wait_until(is_restarted, system.log)
    return system.unit("MainPID")


def _use(system: EmptyRoot, package: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as work:
        host, metrics = _start(system, Path(work))
        try:
            host.run_model()
            assert figure(metrics, "hpu_compile_compiled_total") == 1, system.log()
            assert figure(host.metrics, "hpu_upstream_compiled_total") == 1
            first = system.unit("MainPID")
            system.run("systemctl", "kill", "--signal=KILL", "--kill-who=main", _PACKAGE)
            second = _restarted(system, first)
            system.run("dpkg", "--install", package)
            _restarted(system, second)
            assert figure(metrics, "hpu_rocksdb_entries") == 1, "the program was kept"
        finally:
            host.daemon.stop()


def main() -> None:
    system, package = EmptyRoot(Path(sys.argv[1]).absolute()), Path(sys.argv[2])
    try:
        _live(system, package)
    finally:
        system.end()
    print("the package works where there is nothing but Debian, and leaves nothing")


def _live(system: EmptyRoot, package: Path) -> None:
    before = system.traces()
    shutil.copy(package, system.root / package.name)
    system.run("apt-get", "update", "-q")
    system.run("apt-get", "install", "-y", "-q", "--no-install-recommends", f"/{package.name}")
    own = subprocess.run(
        [native.server_binary(), "--print-build-id"], check=True, capture_output=True, text=True
    ).stdout
    assert system.run(PROGRAM, "--print-build-id") == own, "another build than this host's clients"
    print(f"build {own.strip()[:16]} of {native.server_binary()}")
    assert (system.unit("ActiveState"), system.unit("UnitFileState")) == ("inactive", "disabled")
    _use(system, f"/{package.name}")
    kept = (system.root / _CONFIGURATION).read_text()
    assert re.search("^listen = ", kept, re.MULTILINE), "an upgrade changed server.conf"
    system.run("apt-get", "remove", "-y", "-q", _PACKAGE)
    assert (system.root / _CONFIGURATION).read_text() == kept
    assert (system.root / f"var/lib/{_PACKAGE}/store/signing.key").exists()
    assert not (system.root / PROGRAM[1:]).exists()
    system.run("apt-get", "purge", "-y", "-q", _PACKAGE)
    (system.root / package.name).unlink()
    left = system.traces() - before
    assert not left, left


if __name__ == "__main__":
    sys.exit(main() if os.geteuid() == 0 else "run this as root")
