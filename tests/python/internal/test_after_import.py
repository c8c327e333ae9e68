"""Tests what happens around the import of a module from elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from habana_frameworks.torch.internal.after_import import after_import, repair_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module `elsewhere` whose import fails while a file `broken` is beside it."""
    code = "from pathlib import Path\nif Path(__file__).with_name('broken').exists():\n"
    (tmp_path / "elsewhere.py").write_text(code + "    raise RuntimeError('broken is there')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield tmp_path
    sys.modules.pop("elsewhere", None)


def test_the_action_waits_for_the_import_and_not_for_a_look(module):
    done = []
    after_import("elsewhere", lambda: done.append("first"))
    after_import("elsewhere", lambda: done.append("second"))
    spec = importlib.util.find_spec("elsewhere")
    assert spec.loader.get_filename("elsewhere") == str(module / "elsewhere.py")
    assert done == []
    found = importlib.import_module("elsewhere")
    assert sorted(done) == ["first", "second"]
    assert type(found.__spec__.loader).__name__ == "SourceFileLoader"
    importlib.reload(found)
    assert len(done) == 2


def test_a_failed_import_leaves_the_action_for_the_next_one(module):
    done = []
    after_import("elsewhere", lambda: done.append("imported"))
    (module / "broken").touch()
    with pytest.raises(RuntimeError, match="broken is there"):
        importlib.import_module("elsewhere")
    (module / "broken").unlink()
    assert done == []
    importlib.import_module("elsewhere")
    assert done == ["imported"]


def test_a_repaired_import_runs_the_code_again(module):
    def repair(error):
        assert str(error) == "broken is there"
        (module / "broken").unlink()
        return True

    repair_import("elsewhere", repair)
    (module / "broken").touch()
    assert importlib.import_module("elsewhere").Path is not None


def test_an_error_that_no_repair_knows_is_raised(module):
    repair_import("elsewhere", lambda error: False)
    (module / "broken").touch()
    with pytest.raises(RuntimeError, match="broken is there"):
        importlib.import_module("elsewhere")
