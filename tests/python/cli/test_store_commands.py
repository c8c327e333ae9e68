"""hpu-compile: pin, unpin, gc, verify, export, import, sign, keys, doctor, top; and frozen mode."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from conftest import stop_daemon
from stored_programs import ask, refusal, run

from habana_frameworks.torch import cli, native
from habana_frameworks.torch.cli import values
from habana_frameworks.torch.dynamo.programs.bundle import BundleError, BundleReader
from habana_frameworks.torch.dynamo.programs.cache_artifacts import ProgramArtifact
from habana_frameworks.torch.dynamo.programs.local_daemon import open_client
from habana_frameworks.torch.dynamo.programs.service import service


def test_pinned_programs_are_no_garbage(stored, capsys):
    assert ask(capsys, "pin", stored[3][:10]) == [{"key": stored[3], "pinned": True}]
    assert {row["key"] for row in ask(capsys, "ls") if row["pinned"]} == {stored[3]}
    answer = ask(capsys, "gc", "--max-size", "0")
    assert answer["removed"] == 2 and answer["before_bytes"] > answer["after_bytes"] > 0
    assert run(3).origin == "store"
    assert run(2).origin == "compiled"
    ask(capsys, "unpin", stored[3])
    assert ask(capsys, "gc", "--unused", "1h")["removed"] == 0
    assert ask(capsys, "gc", "--max-size", "0B")["removed"] == 2
    assert ask(capsys, "ls") == []


def test_pin_changes_all_or_none(stored, capsys):
    assert "no stored program has a key that starts with 'ffff'" in refusal(
        capsys, "pin", stored[2], "ffff"
    )
    assert not any(row["pinned"] for row in ask(capsys, "ls"))


def test_gc_wants_to_be_told_what(stored, capsys):
    assert "--max-size SIZE, --unused TIME" in refusal(capsys, "gc")
    assert len(ask(capsys, "ls")) == 3


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("500MB", 500 << 20), ("1.5 GiB", 3 << 29), ("7b", 7)]
)
def test_sizes(text, number):
    assert values.parse_size(text) == number


@pytest.mark.parametrize("text", ["-1", "4294967296", "99999999999999999999", "many"])
@pytest.mark.parametrize("command", ["ls", "profile"])
def test_limits_that_are_no_counts(text, command, capsys):
    """They are refused by the command line, and by the client that Python callers have."""
    with pytest.raises(SystemExit):
        cli.main([command, "--limit", text, *(["script.py"] if command == "profile" else [])])
    assert "expected a whole number from 0 to 4294967295" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["token", "a b", "t", "read"], "a word without spaces"),
        (["token", "", "t", "read"], "a word without spaces"),
        (["token", "#a", "t", "read"], "does not begin with #"),
        (["token", "a\nb", "t", "read"], "a word without spaces"),
        (["token", "a", "t", "read", "--days", "-1"], "a whole number of days"),
        (["token", "a", "t", "read", "--days", "99999999999"], "a whole number of days"),
        (["top", "--interval", "-1"], "seconds above 0"),
        (["top", "--interval", "nan"], "seconds above 0"),
        (["export", ""], "it is empty"),
        (["keys", "--new", ""], "it is empty"),
    ],
    ids=str,
)
def test_wrong_values_are_errors_of_the_command_line(arguments, message, capsys):
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert message in capsys.readouterr().err


def test_the_client_refuses_limits_that_are_no_counts():
    client, _ = open_client()
    for limit in (-1, 1 << 32, "many"):
        with pytest.raises(TypeError):
            client.list(limit)
    with pytest.raises(argparse.ArgumentTypeError, match="more than"):
        values.parse_size("99999999999999999999TB")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("12h", 43200), ("30d", 2592000)])
def test_times(text, seconds):
    assert values.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "GB", "-1", "10 parsecs", "1e9"])
def test_what_is_no_size_is_an_error_of_the_command_line(text, capsys):
    with pytest.raises(SystemExit):
        cli.main(["gc", f"--max-size={text}"])
    assert "is not like 500MB or 10GB" in capsys.readouterr().err


def test_verify_reads_everything(stored, capsys):
    assert ask(capsys, "verify") == {"programs": 3, "damaged": []}
    assert cli.main(["verify"]) == 0
    assert capsys.readouterr().out == "3 programs are as their signers made them\n"


def test_a_bundle_is_an_oci_image_layout(stored, capsys, tmp_path):
    bundle = tmp_path / "all.tar"
    answer = ask(capsys, "export", bundle)
    assert answer == {"bundle": str(bundle), "programs": 3, "bytes": bundle.stat().st_size}
    with tarfile.open(bundle) as tar:
        parts = {m.name: tar.extractfile(m).read() for m in tar}
    assert json.loads(parts.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(parts.pop("index.json"))
    for name, data in parts.items():
        assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    named = {m["annotations"]["org.opencontainers.image.ref.name"] for m in index["manifests"]}
    assert named == set(stored.values())
    for descriptor in index["manifests"]:
        assert descriptor["artifactType"] == "application/vnd.hpu.program.v1"
        image = json.loads(parts[f"blobs/{descriptor['digest'].replace(':', '/')}"])
        for part in (image["config"], *image["layers"]):
            assert len(parts[f"blobs/{part['digest'].replace(':', '/')}"]) == part["size"]


def test_programs_travel_in_a_bundle(stored, capsys, tmp_path):
    bundle = tmp_path / "two.tar"
    assert ask(capsys, "export", bundle, stored[2], stored[3])["programs"] == 2
    ask(capsys, "gc", "--max-size", "0")
    answer = ask(capsys, "import", bundle)
    assert (answer["programs"], answer["aliases"]) == (2, 2)
    assert [run(rows).origin for rows in (2, 3, 4)] == ["store", "store", "compiled"]


def test_another_daemon_takes_what_a_key_it_trusts_has_signed(
    stored, capsys, tmp_path, monkeypatch, private_cache
):
    bundle, signed = tmp_path / "b.tar", tmp_path / "signed.tar"
    ask(capsys, "export", bundle)
    organisation = tmp_path / "organisation"
    (made,) = ask(capsys, "keys", "--new", organisation)
    assert "holds a key already" in refusal(capsys, "keys", "--new", organisation)
    ask(capsys, "sign", bundle, "--key", organisation, "--out", signed)

    stop_daemon(private_cache)
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    (trusted / "organisation.pub").write_bytes((organisation / "signing.pub").read_bytes())
    config = tmp_path / "daemon.toml"
    config.write_text(f'trusted-keys = "{trusted}"\n')
    monkeypatch.setenv("HPU_COMPILE_SERVER_CONFIG", str(config))
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache / "other"))
    try:
        service.reset()
        error = refusal(capsys, "import", bundle)
        assert "program 1 of 3" in error and "0 before it were" in error
        assert "is signed by key" in error
        assert ask(capsys, "import", signed)["aliases"] == 3
        assert run(4).origin == "store"
        assert [row["state"] for row in ask(capsys, "keys")] == ["the daemon's own", "trusted"]
        assert ask(capsys, "keys")[1]["public key"] == made["public key"]
        (trusted / "organisation.revoked").write_bytes((organisation / "signing.pub").read_bytes())
        assert {row["state"] for row in ask(capsys, "keys", "--folder", trusted)} == {"revoked"}
    finally:
        stop_daemon(private_cache / "other")


def changed(bundle: Path, change) -> Path:
    """A copy of the bundle with other parts."""
    with tarfile.open(bundle) as tar:
        parts = {m.name: tar.extractfile(m).read() for m in tar}
    change(parts)
    path = bundle.with_name("changed.tar")
    with tarfile.open(path, "w") as tar:
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def flip(parts: dict[str, bytes]) -> None:
    name = max(parts, key=lambda n: len(parts[n]))
    data = bytearray(parts[name])
    data[len(data) // 2] ^= 1
    parts[name] = bytes(data)


def rename_a_blob(parts: dict[str, bytes]) -> None:
    index = parts["index.json"].decode()
    parts["index.json"] = re.sub("sha256:[0-9a-f]{64}", "sha256:../../etc/passwd", index).encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flip, "has content that does not match its name"),
        (rename_a_blob, "is not the name of a blob"),
        (lambda parts: parts.pop("index.json"), "index.json is missing"),
        (lambda parts: parts.update({"index.json": b"[1]"}), "index.json: "),
        (lambda parts: parts.update({"index.json": b"not JSON"}), "index.json: "),
        (
            lambda parts: parts.pop(next(n for n in parts if n.startswith("blobs/"))),
            " is missing",
        ),
    ],
)
def test_a_damaged_bundle_is_told(stored, capsys, tmp_path, change, words):
    bundle = tmp_path / "b.tar"
    ask(capsys, "export", bundle, stored[2])
    ask(capsys, "gc", "--max-size", "0")
    error = refusal(capsys, "import", changed(bundle, change))
    assert "is damaged: " in error and words in error
    assert ask(capsys, "ls") == []


def test_a_signature_that_does_not_fit_is_not_signed_over(stored, capsys, tmp_path):
    bundle = tmp_path / "b.tar"
    ask(capsys, "export", bundle, stored[2])
    (tmp_path / "key").mkdir()
    native.client_module().make_key(str(tmp_path / "key"))

    def swap_signature(parts: dict[str, bytes]) -> None:
        index = json.loads(parts["index.json"])
        image_name = f"blobs/{index['manifests'][0]['digest'].replace(':', '/')}"
        image = json.loads(parts.pop(image_name))
        name = f"blobs/{image['config']['digest'].replace(':', '/')}"
        config = json.loads(parts.pop(name))
        config["signature"] = config["signature"][::-1].lstrip("=") + "=="

        def add(data: bytes) -> str:
            digest = hashlib.sha256(data).hexdigest()
            parts[f"blobs/sha256/{digest}"] = data
            return f"sha256:{digest}"

        image["config"]["digest"] = add(json.dumps(config).encode())
        index["manifests"][0]["digest"] = add(json.dumps(image).encode())
        parts["index.json"] = json.dumps(index).encode()

    out = tmp_path / "out.tar"
    where = ("--key", tmp_path / "key", "--out", out)
    error = refusal(capsys, "sign", changed(bundle, swap_signature), *where)
    assert "does not fit its signature" in error
    # A good bundle of a signer that the daemon does not know can be signed only if the user names
    # the signer.
    foreign = tmp_path / "foreign.tar"
    assert ask(capsys, "sign", bundle, "--key", tmp_path / "key", "--out", foreign)["programs"] == 1
    error = refusal(capsys, "sign", foreign, *where)
    signer = re.search(r"--signer ([0-9a-f]{64})", error)
    assert "whom nobody named" in error and signer
    assert not out.exists() and not out.with_name("out.tar.part").exists()
    assert ask(capsys, "sign", foreign, *where, "--signer", signer[1])["programs"] == 1
    out.unlink()
    assert not out.exists() and not out.with_name("out.tar.part").exists()


def sparse(path: Path) -> None:
    """A file of a few hundred bytes that claims to be a gigabyte."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("index.json")
        member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)}
        member.size = 1
        tar.addfile(member, io.BytesIO(b"["))


def no_map(path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("index.json")
        member.pax_headers = {"GNU.sparse.map": "a,b", "GNU.sparse.size": "5"}
        tar.addfile(member)


def endless_size(path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("index.json")
        member.pax_headers = {"size": "9" * 400}
        tar.addfile(member)


def deep(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("index.json")
        member.size = 200_000
        tar.addfile(member, io.BytesIO(b"[" * member.size))


@pytest.mark.parametrize("make", [sparse, no_map, endless_size, deep])
def test_a_bundle_that_was_made_to_harm_is_an_error(tmp_path, make):
    make(tmp_path / "b.tar")
    with open(tmp_path / "b.tar", "rb") as file, pytest.raises(BundleError):
        BundleReader(file, "b.tar")
    ProgramArtifact("00" * 32, (tmp_path / "b.tar").read_bytes()).populate_cache()


@pytest.mark.parametrize("content", [b"", b"no archive", b"\0" * 20000])
def test_what_is_no_bundle_is_told(stored, capsys, tmp_path, content):
    (tmp_path / "b.tar").write_bytes(content)
    error = refusal(capsys, "import", tmp_path / "b.tar")
    assert "is not a bundle" in error or "is damaged: index.json is missing" in error
