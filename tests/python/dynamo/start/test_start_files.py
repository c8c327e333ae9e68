"""The folder of stored starts against other users who can write near it, and the unpickled
content."""

from __future__ import annotations

import os
import pickle
import threading
import time

import pytest

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo.start import files, pickles
from habana_frameworks.torch.dynamo.start.files import NoFolder
from habana_frameworks.torch.dynamo.start.graphs import StoredGraph
from habana_frameworks.torch.dynamo.start.trace import Builtins

KEY = "0" * 64


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(native, "cache_dir", lambda: str(folder))
    return folder


def contents(key=KEY):
    return list(files.read(key))


def test_what_was_written_is_read_the_newest_first(cache):
    for age, content in enumerate([b"old", b"middle", b"new"]):
        files.write(KEY, content)
        for path in (cache / "start" / "starts" / KEY).iterdir():
            if path.read_bytes().endswith(content):
                os.utime(path, (age, age))
    assert contents() == [b"new", b"middle", b"old"]
    assert contents("1" * 64) == []
    assert oct((cache / "start").stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702, 0o720, 0o1777])
def test_a_cache_folder_that_others_can_write_to_holds_no_starts(cache, mode):
    files.write(KEY, b"content")
    cache.chmod(mode)
    with pytest.raises(
        NoFolder, match=rf"cache is written by other users: it has mode {mode & 0o777:o}"
    ):
        contents()
    with pytest.raises(NoFolder, match="is written by other users"):
        files.write(KEY, b"other")
    with pytest.raises(NoFolder, match="is written by other users"):
        files.append_line("journal", "line", 100)
    with pytest.raises(NoFolder, match="is written by other users"):
        files.lines("journal")


@pytest.mark.parametrize("name", ["start", "start/starts", f"start/starts/{KEY}"])
def test_a_folder_of_starts_that_others_can_write_to_is_refused(cache, name):
    files.write(KEY, b"content")
    (cache / name).chmod(0o722)
    with pytest.raises(NoFolder, match="other users"):
        contents()


@pytest.mark.parametrize("name", ["start", "start/starts", f"start/starts/{KEY}"])
def test_a_link_in_place_of_a_folder_is_refused(cache, tmp_path, name):
    files.write(KEY, b"content")
    (cache / name).rename(tmp_path / "elsewhere")
    (cache / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoFolder):
        contents()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize("name", [".", "start", "start/starts", f"start/starts/{KEY}"])
def test_a_folder_of_another_user_is_refused(cache, name):
    files.write(KEY, b"content")
    os.chown(cache / name, 12345, -1)
    with pytest.raises(NoFolder, match="is not a folder of this user"):
        contents()


def start_file(cache):
    (path,) = (cache / "start" / "starts" / KEY).iterdir()
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_another_user_is_no_start(cache):
    files.write(KEY, b"content")
    os.chown(start_file(cache), 12345, -1)
    assert contents() == []
    os.chown(cache / "start" / "key", 12345, -1)
    with pytest.raises(NoFolder, match="is not a file of this user"):
        contents()


ODD = {
    "FIFO": lambda path, other: os.mkfifo(path),
    "link": lambda path, other: path.symlink_to(other),
    "folder": lambda path, other: path.mkdir(),
    "device": lambda path, other: path.symlink_to("/dev/zero"),
    "dead link": lambda path, other: path.symlink_to(other / "nothing"),
}


@pytest.mark.parametrize("kind", ODD)
def test_something_else_in_place_of_a_start_is_passed_over(cache, tmp_path, kind):
    files.write(KEY, b"content")
    path = start_file(cache)
    path.rename(tmp_path / "content")
    ODD[kind](path, tmp_path / "content")
    assert contents() == []
    files.write(KEY, b"other")
    assert contents() == [b"other"]


@pytest.mark.parametrize("kind", ["FIFO", "link", "folder", "device"])
@pytest.mark.parametrize("name", ["key", "journal"])
def test_something_else_in_place_of_the_key_or_the_journal_is_an_error(cache, tmp_path, kind, name):
    files.write(KEY, b"content")
    files.append_line("journal", "line", 1000)
    path = cache / "start" / name
    path.rename(tmp_path / "content")
    ODD[kind](path, tmp_path / "content")
    with pytest.raises(NoFolder):
        contents() if name == "key" else files.lines("journal")
    with pytest.raises(NoFolder):
        files.write(KEY, b"new") if name == "key" else files.append_line("journal", "line", 1000)


def test_a_folder_that_is_swapped_while_it_is_read_changes_nothing(cache, tmp_path):
    """The folder is renamed at every moment; the content that is read is signed, or nothing is
    read."""
    files.write(KEY, b"ours")
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (cache / "start").rename(tmp_path / "kept")
    files.write(KEY, b"theirs")  # signed with a key of its own
    (cache / "start").rename(other / "start")
    (tmp_path / "kept").rename(cache / "start")
    opened = os.open
    steps = []

    def swap(path, flags, *args, **kwargs):
        found = opened(path, flags, *args, **kwargs)
        if path == "start":  # its descriptor is open: now somebody puts another folder there
            (cache / "start").rename(tmp_path / "kept")
            (other / "start").rename(cache / "start")
            steps.append("swapped")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", swap)
        found = contents()
    assert steps == ["swapped"] and found == [b"ours"]


def test_threads_and_processes_that_write_at_once_leave_whole_files(cache):
    barrier = threading.Barrier(8)

    def write(number):
        barrier.wait()
        for turn in range(8):
            files.write(KEY, b"%d %d" % (number, turn))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(contents()) == sorted(b"%d %d" % (n, t) for n in range(8) for t in range(8))
    assert not [n for n in os.listdir(cache / "start" / "starts" / KEY) if n.startswith(".")]


def test_the_oldest_starts_go(cache, monkeypatch):
    monkeypatch.setattr(files, "MAX_PER_KEY", 3)
    monkeypatch.setattr(files, "MAX_FILES", 4)
    for number in range(10):
        files.write(KEY, b"%d" % number)
        (newest,) = [
            path
            for path in (cache / "start" / "starts" / KEY).iterdir()
            if path.read_bytes().endswith(b"%d" % number)
        ]
        os.utime(newest, (number, number))
    assert contents() == [b"9", b"8", b"7"]
    files.write("1" * 64, b"another")
    files.write("1" * 64, b"and another")
    assert len(contents()) + len(contents("1" * 64)) == 4


def test_the_journal_keeps_its_newer_half(cache):
    for number in range(100):
        files.append_line("journal", f"line {number}", 200)
    lines = files.lines("journal")
    assert lines[-1] == "line 99" and 1 < len(lines) < 40 and lines[0].startswith("line ")
    assert files.lines("nothing") == []


# ---- what is unpickled ---------------------------------------------------------------------------


class Runs:
    """A value whose reading calls a function."""

    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


HOSTILE = {
    "system": Runs(os.system, "true"),
    "eval": Runs(eval, "1"),
    "exec": Runs(exec, ""),
    "getattr": Runs(getattr, 1, "real"),
    "import": Runs(__import__, "this"),
    "function of this package": Runs(files.folder),
    "class of another module": Runs(threading.Event),
    "function of torch": Runs(__import__("torch").load, "nothing"),
    "function of Dynamo": Runs(__import__("torch._dynamo", fromlist=["reset"]).reset),
    "exception of this package": Runs(NoFolder, "text"),
    "time": Runs(time.sleep, 0),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_else_than_a_start_is_unpickled(name):
    content = pickle.dumps({"a": [HOSTILE[name]]}, protocol=5)
    with pytest.raises(pickle.UnpicklingError, match="is not part of a start"):
        pickles.load(content, lambda text: text)


@pytest.mark.parametrize(
    "name", ["torch\nos.system", "torch\nserialization", "nothing_there\nf", "builtins\neval"]
)
def test_names_with_paths_lead_nowhere(name):
    module, _, attribute = name.partition("\n")
    content = b"\x80\x04\x8c%c%s\x8c%c%s\x93." % (
        *(len(module), module.encode()),
        *(len(attribute), attribute.encode()),
    )
    with pytest.raises(pickle.UnpicklingError, match="is not part of a start"):
        pickles.load(content, lambda text: text)


def test_what_would_not_be_read_is_not_written():
    for value in HOSTILE.values():
        with pytest.raises(pickle.PicklingError, match="is not part of a start"):
            pickles.dump([value], ())


def test_what_starts_are_made_of_is_read_as_it_was():
    graph = StoredGraph("source", "", [("a", "b")], "reason", "def f(): pass", {}, {})
    value = [Builtins(), graph, {1, 2}, frozenset({"a"}), 2j, slice(1, 2), range(3), "name"]
    found = pickles.load(pickles.dump(value, {"name"}), lambda text: text.upper())
    assert found == [*value[:-1], "NAME"]
