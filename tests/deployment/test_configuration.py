"""deployment/server.conf names every option of the server, with its default, and is valid."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

import pytest
from deployed_server import CONFIGURATION, Folders, check, option_lines

from habana_frameworks.torch import native

# These options are for a command line and never for a file.
_COMMAND_LINE_ONLY = {"help", "config", "check-config", "daemon", "print-build-id", "worker"}
# These are set in the file, because a shared server needs other values than a user's daemon.
_OTHER_THAN_DEFAULT = {"idle-timeout", "stop-grace", "foreground", "socket", "store"}
_SUFFIXES = {"kb": 2**10, "mb": 2**20, "gb": 2**30}


@cache
def _options() -> dict[str, str]:
    """The options in --help: their names and the defaults, "" where there is none."""
    text = subprocess.run(
        [native.server_binary(), "--help"], check=True, capture_output=True, text=True
    ).stdout
    found = {}
    for line in text.splitlines():
        if match := re.match(r"  (?:-\w,)?--([a-z-]+)(.*)$", line):
            default = re.match(r" [^=]*?(?:\[[^]]*\])?=(\S+)", match.group(2).split("  ")[0])
            found[match.group(1)] = default.group(1) if default else ""
    return found


def _number(value: str) -> float:
    match = re.fullmatch(r"([\d.]+)([a-z]*)", value.lower())
    assert match, value
    return float(match.group(1)) * _SUFFIXES.get(match.group(2), 1)


def test_names_every_option_and_no_other():
    named = set(option_lines(CONFIGURATION.read_text()))
    assert named == set(_options()) - _COMMAND_LINE_ONLY


def test_shows_the_defaults():
    shown = option_lines(CONFIGURATION.read_text())
    defaults = {name: value for name, value in _options().items() if value and name in shown}
    assert {"max-size", "worker-memory", "compile-timeout", "redis-timeout"} <= set(defaults)
    for name, default in defaults.items():
        is_set, value = shown[name]
        if name in _OTHER_THAN_DEFAULT or name == "workers":  # its default is the number of cores
            continue
        assert not is_set, name
        wanted = _number(default) if default[0].isdigit() else default
        assert (_number(value) if default[0].isdigit() else value) == wanted, name
    text = CONFIGURATION.read_text()
    for name in ("idle-timeout", "stop-grace"):
        assert f"(default {defaults[name]})" in text.split(f"\n{name} =")[0].split("\n\n")[-1]


@pytest.fixture
def folders(tmp_path):
    made = Folders(tmp_path)
    made.make_certificate()
    (made.configuration / "redis-password").write_text("secret\n")
    (made.configuration / "redis-password").chmod(0o640)
    shutil.copy(made.configuration / "tls/tls.crt", made.configuration / "tls/client-ca.crt")
    remote_cache = made.configuration / "remote-cache"
    remote_cache.mkdir()
    (remote_cache / "token").write_text("secret\n")
    (remote_cache / "token").chmod(0o600)
    upstream = made.configuration / "upstream"
    upstream.mkdir()
    shutil.copy(remote_cache / "token", upstream)
    for folder in (remote_cache, upstream):
        for name in ("tls.crt", "tls.key"):
            shutil.copy(made.configuration / "tls" / name, folder)
        shutil.copy(made.configuration / "tls/tls.crt", folder / "ca.crt")
    return made


def _checked(folders: Folders, text: str):
    path = folders.configuration / "server.conf"
    path.write_text(folders.here(text))
    return check([native.server_binary(), "--config", str(path)])


def test_is_good_as_it_is_and_with_every_line_set(folders):
    text = CONFIGURATION.read_text()
    everything = re.sub(r"^# (?=[a-z][a-z-]* = )", "", text, flags=re.MULTILINE)
    assert everything != text
    for made in (text, everything):
        done = _checked(folders, made)
        assert (done.returncode, done.stdout) == (0, "the options are good\n"), done.stderr


@pytest.mark.parametrize("place", ["upstream", "remote-cache"])
def test_certificates_for_other_servers_are_read(folders, place):
    (folders.configuration / place / "tls.crt").write_text("nothing of the kind\n")
    text = CONFIGURATION.read_text()
    done = _checked(folders, re.sub(r"^# (?=[a-z][a-z-]* = )", "", text, flags=re.MULTILINE))
    assert done.returncode == 1
    assert f"--{place}-certificate" in done.stderr
    assert "has no certificate in PEM" in done.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("worker = 3", "line 1: 'worker' is no option of the server"),
        ("stop-grace = -1", "line 1: --stop-grace"),
        ("workers = 1000", "line 1: --workers: Value 1000 not in range"),
        ('max-size = "10 elephants"', "line 1: --max-size"),
        ("listen-to = 1", "line 1: 'listen-to' is no option of the server"),
    ],
    ids=["command line only", "negative", "out of range", "no size", "unknown"],
)
def test_an_error_is_told_with_line_and_option(folders, line, complaint):
    done = _checked(folders, f'{line}\ncache-dir = "/var/lib/hpu-compile-server"\n')
    assert done.returncode != 0
    assert complaint in done.stderr + done.stdout
