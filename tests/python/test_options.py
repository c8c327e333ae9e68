"""Options and flags: names, values, defaults, errors that name themselves (docs/options.md)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from habana_frameworks.torch.dynamo import options
from habana_frameworks.torch.dynamo.option_table import OPTIONS
from habana_frameworks.torch.dynamo.options import OptionError, parse_bool, resolve


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for option in OPTIONS:
        monkeypatch.delenv(option.env, raising=False)
    options.reread_environment()
    yield
    options.reread_environment()


def test_defaults():
    assert resolve(None) == {option.name: option.default for option in OPTIONS}


@pytest.mark.parametrize("text", ["on", "1", "yes", "true", "y", "t", "TRUE", " On "])
def test_true(text):
    assert parse_bool(text, "FLAG") is True


@pytest.mark.parametrize("text", ["off", "0", "no", "false", "n", "f", "False"])
def test_false(text):
    assert parse_bool(text, "FLAG") is False


@pytest.mark.parametrize("text", ["", "2", "maybe", "tru"])
def test_other_spellings_are_refused(text):
    with pytest.raises(OptionError, match=r"FLAG=.*on/1/yes/true/y/t or off/0/no/false/n/f"):
        parse_bool(text, "FLAG")


def test_option_overrides_environment(monkeypatch):
    monkeypatch.setenv("PT_HPU_KEEP_INPUT_MUTATIONS", "no")
    options.reread_environment()
    assert resolve(None)["keep_input_mutations"] is False
    assert resolve({"keep_input_mutations": True})["keep_input_mutations"] is True


def test_environment_is_read_once(monkeypatch):
    resolve(None)
    monkeypatch.setenv("PT_HPU_USE_EAGER_FALLBACK", "0")
    assert resolve(None)["use_eager_fallback"] is True


def test_wrong_environment_value_names_the_variable(monkeypatch):
    monkeypatch.setenv("PT_HPU_FORCE_STATIC_COMPILE", "perhaps")
    options.reread_environment()
    with pytest.raises(OptionError, match="PT_HPU_FORCE_STATIC_COMPILE='perhaps'"):
        resolve(None)


def test_unknown_option_names_itself_the_closest_and_all():
    with pytest.raises(OptionError) as error:
        resolve({"force_static_compil": True})
    text = str(error.value)
    assert "'force_static_compil'" in text
    assert "did you mean 'force_static_compile'?" in text
    assert "use_eager_fallback" in text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("decomposition_mode", "some", "expected one of habana, core_aten, none"),
        ("compile_timeout_s", "soon", "expected a float"),
        ("compile_timeout_s", -1, "at least 0"),
        ("inference", 3, "inference"),
    ],
)
def test_bad_values_name_the_option_and_what_is_allowed(name, value, message):
    with pytest.raises(OptionError, match=message) as error:
        resolve({name: value})
    assert name in str(error.value)


def test_values_without_effect_are_told():
    assert options.without_effect(resolve(None)) == []
    (sentence,) = options.without_effect(resolve({"use_graph_freezing": True}))
    assert "use_graph_freezing=True has no effect: weights are inputs" in sentence


def test_wrong_option_reaches_the_user_of_torch_compile():
    import torch

    compiled = torch.compile(lambda x: x + 1, backend="hpu_backend", options={"no_such": 1})
    with pytest.raises(Exception, match="no option 'no_such'"):
        compiled(torch.ones(2))


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_lazy_mode_is_refused_on_public_pytorch():
    """Guide MODE-3, ABI-5."""
    done = run_python("import habana_frameworks.torch", PT_HPU_LAZY_MODE="1")
    assert done.returncode != 0
    assert "PT_HPU_LAZY_MODE=1" in done.stderr
    assert "hpu_backend" in done.stderr


@pytest.mark.parametrize("value", ["0", "", "0x0"])
def test_eager_mode_is_the_default(value):
    code = (
        "import torch, habana_frameworks.torch as h, habana_frameworks.torch\n"
        "from habana_frameworks.torch.utils.internal import is_lazy\n"
        "from habana_frameworks.torch.utils import load_habana_module\n"
        "load_habana_module(); assert torch.hpu is h.hpu and not is_lazy()\n"
    )
    done = run_python(code, PT_HPU_LAZY_MODE=value)
    assert done.returncode == 0, done.stderr


def test_mode_that_does_not_exist():
    done = run_python("import habana_frameworks.torch", PT_HPU_LAZY_MODE="2")
    assert "PT_HPU_LAZY_MODE=2" in done.stderr


def test_metrics_file(tmp_path):
    """bridge.md section 2: PT_HPU_METRICS_FILE and its formats."""
    import json

    code = "import torch, habana_frameworks.torch"
    path = tmp_path / "metrics.json"
    for _ in range(2):
        run_python(code, PT_HPU_METRICS_FILE=str(path), RANK="3", PT_HPU_ENABLE_CACHE_METRICS="1")
    entries = json.loads((tmp_path / "metrics-rank3.json").read_text())
    assert [e["metric_name"] for e in entries] == [
        "graph_compilation",
        "cpu_fallback",
        "recipe_cache",
    ]
    assert entries[0]["triggered_by"] == "process_exit"
    assert entries[0]["statistics"] == {"TotalNumber": 0, "TotalTime": 0, "AvgTime": 0}
    assert (tmp_path / "metrics-rank3.json.1").exists()
    text = tmp_path / "metrics.txt"
    run_python(code, PT_HPU_METRICS_FILE=str(text), PT_HPU_METRICS_FILE_FORMAT="text")
    assert text.read_text().startswith(
        "Metric name: graph_compilation\nTriggered by: process_exit\n"
    )


def test_mark_step_warns_once_and_does_nothing():
    code = (
        "import habana_frameworks.torch.core as htcore\n"
        "htcore.mark_step(); htcore.mark_step(sync=True); htcore.iter_mark_step()\n"
        "done = []; htcore.add_step_closure(done.append, (1,)); assert done == [1]\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("do nothing in eager mode") == 1


def test_generated_files_are_current():
    from pathlib import Path

    generator = Path(__file__).parents[2] / "proto/gen_options.py"
    done = subprocess.run([sys.executable, str(generator), "--check"], check=False)
    assert done.returncode == 0
