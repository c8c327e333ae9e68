"""Runs a public client of habana_frameworks in an environment of its own.

    ./dev test-client NAME [ARGUMENTS]

A client is a folder beside this file:
    requirements.txt   packages with their versions; installed without dependencies, so that all of
                       them are named, except torch, which is linked from .venv
    sources.txt        optional: a line `NAME URL COMMIT` for each program that is taken from its
                       git repository
    removed.txt        optional: files of packages that the environment must not have
    run.py             the tests; it is given the arguments, and its exit code is the result
The environment is build/clients/NAME. It is made the first time, and again when one of these files
has changed. It sees this package through a path file, and has a copy of the package's metadata, by
which PyTorch finds it. Where a URL of sources.txt cannot be reached, the variable CLIENT_SOURCES
names a folder with a git repository (bare or not) called NAME that has the commit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_OWN_PACKAGES = Path(sysconfig.get_path("purelib"))
_TORCH = ("torch", "torchgen", "functorch", "torch-*.dist-info")


def clients() -> list[str]:
    return sorted(run.parent.name for run in HERE.glob("*/run.py"))


def lines(path: Path) -> list[str]:
    """The lines of a file without comments; none if there is no such file."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _pip(environment: Path, *arguments: str | Path) -> None:
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*pip, "-q", "--no-deps", *arguments], check=True)


def _link_torch(packages: Path) -> None:
    """The client must have the build of PyTorch that `_torch` was built with."""
    for pattern in _TORCH:
        for found in _OWN_PACKAGES.glob(pattern):
            (packages / found.name).symlink_to(found)


def _install_source(environment: Path, name: str, url: str, commit: str) -> None:
    source = environment / "sources" / name
    known = Path(os.environ.get("CLIENT_SOURCES", os.devnull)) / name
    remote = str(known.resolve()) if known.is_dir() else url
    subprocess.run(["git", "init", "-q", source], check=True)
    for command in (["fetch", "-q", "--depth", "1", remote, commit], ["checkout", "-q", commit]):
        subprocess.run(["git", "-C", source, *command], check=True)
    _pip(environment, source)


def _add_package(packages: Path) -> None:
    """Makes this package visible."""
    (packages / "hpu_backend.pth").write_text(f"{ROOT / 'python'}\n", encoding="utf-8")
    for information in _OWN_PACKAGES.glob("hpu_backend-*.dist-info"):
        shutil.copytree(information, packages / information.name, dirs_exist_ok=True)


def _add_command(environment: Path) -> None:
    """Some clients ask `hl-smi` what the device is when they are imported."""
    command = environment / "bin" / "hl-smi"
    python = environment / "bin" / "python"
    program = "import sys\n\nfrom habana_frameworks.hl_smi import main\n\nsys.exit(main())\n"
    command.write_text(f"#!{python}\n{program}", encoding="utf-8")
    command.chmod(0o755)


def _make(client: Path, environment: Path) -> None:
    print(f"==> making the environment of {client.name} in {environment}", flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    [packages] = environment.glob("lib/python3*/site-packages")
    _link_torch(packages)
    _pip(environment, "-r", client / "requirements.txt")
    for line in lines(client / "sources.txt"):
        _install_source(environment, *line.split())
    for name in lines(client / "removed.txt"):
        (packages / name).unlink()
    _add_package(packages)
    _add_command(environment)


def prepare(name: str) -> Path:
    """The environment of the client, made or renewed where it must be."""
    client = HERE / name
    environment = ROOT / "build" / "clients" / name / "environment"
    files = [client / f"{kind}.txt" for kind in ("requirements", "sources", "removed")]
    made_of = "\n".join(line for file in files for line in lines(file))
    stamp = environment / "made_of"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != made_of:
        _make(client, environment)
        stamp.write_text(made_of, encoding="utf-8")
    return environment


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in clients():
        sys.exit(f"usage: ./dev test-client NAME [ARGUMENTS]; NAME is one of {clients()}")
    name, *arguments = sys.argv[1:]
    python = prepare(name) / "bin" / "python"
    os.execv(python, [str(python), str(HERE / name / "run.py"), *arguments])


if __name__ == "__main__":
    main()
