"""Options and flags: names, values, defaults, errors that name themselves (docs/options.md)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from paths import ROOT
from processes import output_of, run_python

from habana_frameworks.torch.dynamo.settings import options
from habana_frameworks.torch.dynamo.settings.option_table import OPTIONS
from habana_frameworks.torch.dynamo.settings.options import OptionError
from habana_frameworks.torch.dynamo.settings.resolve import resolve
from habana_frameworks.torch.internal.switches import parse_bool


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for option in OPTIONS:
        monkeypatch.delenv(option.env, raising=False)


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
    with pytest.raises(ValueError, match=r"FLAG=.*on/1/yes/true/y/t or off/0/no/false/n/f"):
        parse_bool(text, "FLAG")


def test_environment_and_its_defaults(monkeypatch):
    monkeypatch.setenv("PT_HPU_KEEP_INPUT_MUTATIONS", "no")
    monkeypatch.setenv("HPU_COMPILE_TIMEOUT_S", "2.5")
    values = options.from_environment()
    assert values["keep_input_mutations"] is False and values["compile_timeout_s"] == 2.5
    assert values["use_eager_fallback"] is True


def test_option_overrides_environment_which_is_read_once():
    done = output_of(
        "import os\n"
        "from habana_frameworks.torch.dynamo.settings.resolve import resolve\n"
        "print(resolve(None)['keep_input_mutations'])\n"
        "print(resolve({'keep_input_mutations': True})['keep_input_mutations'])\n"
        "os.environ['PT_HPU_KEEP_INPUT_MUTATIONS'] = 'yes'\n"
        "print(resolve(None)['keep_input_mutations'])\n",
        PT_HPU_KEEP_INPUT_MUTATIONS="no",
    )
    assert done.stdout.split() == ["False", "True", "False"]


def test_wrong_environment_value_names_the_variable(monkeypatch):
    monkeypatch.setenv("PT_HPU_FORCE_STATIC_COMPILE", "perhaps")
    with pytest.raises(OptionError, match="PT_HPU_FORCE_STATIC_COMPILE='perhaps'"):
        options.from_environment()


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
        ("compile_timeout_s", "soon", "expected a number"),
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


def test_key_options_are_the_text_that_the_compiler_takes():
    assert options.key_options(resolve(None))["deterministic"] == "false"
    assert options.key_options(resolve({"deterministic": True}))["deterministic"] == "true"
    assert set(options.key_options(resolve(None))) == {o.name for o in OPTIONS if o.key}


def test_an_option_follows_a_mode_of_pytorch():
    torch.use_deterministic_algorithms(True)
    try:
        assert resolve(None)["deterministic"] is True
        assert resolve({"deterministic": False})["deterministic"] is True
    finally:
        torch.use_deterministic_algorithms(False)
    assert resolve(None)["deterministic"] is False


def test_wrong_option_reaches_the_user_of_torch_compile():
    compiled = torch.compile(lambda x: x + 1, backend="hpu_backend", options={"no_such": 1})
    with pytest.raises(Exception, match="no option 'no_such'"):
        compiled(torch.ones(2))


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


def test_a_metrics_file_of_a_rank_that_is_known_late_or_in_no_folder(tmp_path):
    code = "import os, torch, habana_frameworks.torch\nos.environ['RANK'] = '1'"
    run_python(code, PT_HPU_METRICS_FILE=str(tmp_path / "metrics.json"))
    assert (tmp_path / "metrics-rank1.json").exists()
    nowhere = tmp_path / "none/metrics.json"
    done = run_python(code, PT_HPU_METRICS_FILE=str(nowhere))
    assert f"PT_HPU_METRICS_FILE={nowhere}: no metrics are written" in done.stderr
    assert "Traceback" not in done.stderr and done.returncode == 0


def test_generated_files_are_current():

    generator = ROOT / "proto/gen_options.py"
    done = subprocess.run([sys.executable, str(generator), "--check"], check=False)
    assert done.returncode == 0
