"""hpu-compile report, and that it costs nothing where nobody uses it."""

from __future__ import annotations

import json
import subprocess
import sys

import browser
import pytest
from helpers import fresh_process
from processes import output_of

from habana_frameworks.torch import cli

SCRIPT = """
import sys, torch, habana_frameworks.torch
torch.manual_seed(0)
with torch.no_grad():
    torch.compile(lambda x: (x @ x).relu(), backend="hpu_backend")(torch.randn(16, 16).to("hpu"))
print("said by the script")
if "fail" in sys.argv:
    raise ValueError("as asked")
"""


def test_command_writes_page_or_json(tmp_path, monkeypatch, capsys):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    fresh_process()
    assert cli.main(["report", str(script)]) == 0
    told = capsys.readouterr().out
    assert "1 graphs (" in told
    assert told.endswith("hpu_report.html\n")
    page = browser.Page(browser.dom((tmp_path / "hpu_report.html").as_uri()))
    assert page.texts("h1") == ["script.py"]
    assert page.figure("graphs") == "1"
    fresh_process()
    assert cli.main(["report", "--json", str(script)]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["title"] == "script.py"
    assert answer["hits"] == 1
    assert answer["recipes"][0]["kernels"][0]["engine"] == "mme"
    assert "said by the script" in captured.err


def test_command_reports_on_a_script_that_fails(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    page = tmp_path / "page.html"
    fresh_process()
    assert cli.main(["report", "-o", str(page), str(script), "fail"]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert (
        f"the script failed: ValueError: as asked; the report of what it did is in {page}" in error
    )
    assert "the script failed: ValueError: as asked" in page.read_text()
    assert cli.main(["report", str(tmp_path / "none.py")]) == 1
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["profile", "record"])
def test_other_commands_show_the_error_of_a_script_too(tmp_path, capsys, command):
    script = tmp_path / "script.py"
    script.write_text("def inner():\n    raise ValueError('as asked')\n\n\ninner()\n")
    assert cli.main([command, str(script)]) == 1
    error = capsys.readouterr().err
    assert "the script failed: ValueError: as asked" in error
    assert 'script.py", line 5' in error and "runpy" not in error


def test_steady_path_is_untouched_by_reports():
    """Without a recording nothing of the report package is loaded."""
    done = output_of(
        "import sys, torch, habana_frameworks.torch\n"
        "with torch.no_grad():\n"
        "    torch.compile(lambda x: x + 1, backend='hpu_backend')(torch.ones(2, device='hpu'))\n"
        "print([m for m in sys.modules if 'torch.report' in m])\n"
    )
    assert done.stdout.strip() == "[]"


def test_module_runs_as_a_script():
    done = subprocess.run(
        [sys.executable, "-m", "habana_frameworks.torch.cli", "report", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "one page of graphs" in done.stdout
