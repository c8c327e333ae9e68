"""Values that hpu-compile prints to be pasted elsewhere are whole, whatever the terminal's
width."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from habana_frameworks.torch import cli, native
from habana_frameworks.torch.cli import tables


@pytest.fixture(autouse=True, params=["30", "80", "400"])
def width(request, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", request.param)


def printed(capsys, *arguments: str) -> str:
    assert cli.main(list(arguments)) == 0
    return str(capsys.readouterr().out)


def test_the_line_of_a_token_is_taken_by_a_server(capsys, tmp_path) -> None:
    text = printed(capsys, "token", "trainer", "team-a", "read,compile", "--days", "9")
    (line,) = re.findall(r"^line +(trainer .*?) *$", text, re.MULTILINE)
    (secret,) = re.findall(r"^token +(\S{43}) *$", text, re.MULTILINE)
    assert re.fullmatch(r"trainer team-a read,compile sha256:[0-9a-f]{64} \d{4}-\d\d-\d\d", line)
    callers = tmp_path / "callers"
    callers.write_text(line + "\n")
    callers.chmod(0o600)
    check = [native.server_binary(), "--check-config", f"--cache-dir={tmp_path}"]
    done = subprocess.run(
        [*check, "--listen=tcp://127.0.0.1:1", f"--callers={callers}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("the options are good\n", "")
    assert secret not in line


def test_the_file_of_a_token_is_named_whole(capsys, tmp_path) -> None:
    out = tmp_path / ("a" * 90) / "token"
    out.parent.mkdir()
    text = printed(capsys, "token", "a", "b", "read", "--out", str(out))
    assert f"in {out}\n" in re.sub(" +\n", "\n", text)


def test_a_public_key_is_whole_and_the_beginning_of_one_is_refused(capsys, tmp_path) -> None:
    folder = tmp_path / "signer"
    made = printed(capsys, "keys", "--new", str(folder))
    (key,) = re.findall(r"[0-9a-f]{64}", made)
    assert bytes.fromhex(key) == (folder / "signing.pub").read_bytes()
    shown = printed(capsys, "keys", "--folder", str(folder))
    assert re.search(rf"^{key} +trusted +signing.pub", shown, re.MULTILINE)
    (folder / "old.revoked").write_bytes(bytes(32))
    assert re.search(
        r"^0{64} +revoked +old.revoked", printed(capsys, "keys", "--folder", str(folder)), re.M
    )
    with pytest.raises(SystemExit):
        cli.main(["sign", "bundle", "--key", str(folder), "--out", "out", "--signer", key[:12]])
    assert "expected 64 hexadecimal digits, as `hpu-compile keys` prints" in capsys.readouterr().err


def test_paths_and_digests_of_the_daemon_are_whole(capsys) -> None:
    text = printed(capsys, "status")
    answer = json.loads(printed(capsys, "status", "--json"))
    for name in ("cache_dir", "socket", "store", "log"):
        assert re.search(rf"^{name} +{re.escape(answer[name])} *$", text, re.MULTILINE), name


def test_every_answer_of_names_and_values_is_whole(capsys) -> None:
    """This holds for every command, because nobody knows which value is needed elsewhere."""
    digest = "0123456789abcdef" * 4
    answer = {"one": digest, "two": f"x {digest} y", "long": "z" * 500, "three": [digest]}
    tables.print_answer("some command", answer)
    text = capsys.readouterr().out
    assert text.count(digest) == 3
    assert "z" * 500 in text


def test_what_a_fifo_is_in_place_of_is_named(capsys, tmp_path) -> None:
    """In place of a bundle, and of keys in a folder."""
    fifo = tmp_path / "a.pub"
    os.mkfifo(fifo)
    for arguments in (["import", str(fifo)], ["keys", "--folder", str(tmp_path)]):
        assert cli.main(arguments) == 1
        assert f"it is a FIFO and not a regular file: '{fifo}'" in capsys.readouterr().err
    (tmp_path / "key").mkdir()
    native.client_module().make_key(str(tmp_path / "key"))
    sign = ["sign", str(fifo), "--key", str(tmp_path / "key"), "--out", str(tmp_path / "out")]
    assert cli.main([*sign, "--signer", "0" * 64]) == 1
    assert "it is a FIFO" in capsys.readouterr().err
    assert not Path(tmp_path / "out.part").exists()
