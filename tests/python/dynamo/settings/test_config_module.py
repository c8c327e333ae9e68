"""dynamo.compile_backend.config: a torch config module whose flags act (bridge.md section 4)."""

from __future__ import annotations

import pickle
import threading

import pytest
import torch
from fallback_chain import W, X, affine, compiled, run
from helpers import fresh_process
from processes import output_of

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.compile_backend import config
from habana_frameworks.torch.dynamo.compile_backend.config import configuration_flags
from habana_frameworks.torch.dynamo.settings.option_table import OPTIONS
from habana_frameworks.torch.dynamo.settings.options import OptionError
from habana_frameworks.torch.dynamo.settings.resolve import resolve

OTHER_TEXT = {"compile_priority": "warm-up", "decomposition_mode": "none", "show_progress": "off"}


def other_value(option):
    if option.kind is str:
        return OTHER_TEXT[option.name]
    return not option.default if option.kind is bool else option.default + 1


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_a_flag_that_reaches_the_backend(option):
    value = other_value(option)
    assert configuration_flags[option.name] == option.default == resolve(None)[option.name]
    with config.patch({option.name: value}):
        assert getattr(config, option.name) == value == resolve(None)[option.name]
        assert resolve({option.name: option.default})[option.name] == option.default
    assert resolve(None)[option.name] == option.default


def test_the_module_holds_the_options_and_nothing_else():
    assert set(config.get_config_copy()) == {option.name for option in OPTIONS}
    assert set(pickle.loads(config.save_config())) == {option.name for option in OPTIONS}
    with pytest.raises(AttributeError, match="no_such_flag"):
        config.no_such_flag = True
    with pytest.raises(AttributeError, match="no_such_flag"):
        configuration_flags["no_such_flag"]


def test_older_spelling_sets_the_same_flag():
    with config.patch(use_boxed_input=True):
        configuration_flags["use_boxed_input"] = False
        assert config.use_boxed_input is False
    assert configuration_flags["use_boxed_input"] is True


def test_wrong_value_names_the_flag():
    with (
        config.patch(decomposition_mode="some"),
        pytest.raises(OptionError, match=r"config.decomposition_mode='some'.*core_aten"),
    ):
        resolve(None)


@pytest.mark.parametrize("flag", ["use_compiled_recipes", "inference"])
def test_flags_that_switch_compilation_off(store, flag):
    with config.patch({flag: False}):
        assert flag in run(affine, X, W).graphs[-1].reason
        assert run(affine, X, W, **{flag: True}).graphs[-1].reason == ""


def test_keep_input_mutations(store):
    torch._dynamo.reset()
    x = X.clone()
    with torch.no_grad(), config.patch(keep_input_mutations=False):
        compiled(lambda x: x.add_(1))(x)
    assert torch.equal(x, X + 1)
    assert report().graphs[-1].origin == "eager"


def test_require_server(store):
    store.start_error = RuntimeError("cannot bind")
    with config.patch(require_server=True), pytest.raises(Exception, match="cannot bind"):
        run(affine, X, W)


def test_use_eager_fallback():
    fresh_process()
    function = torch.compile(torch.lgamma, backend="hpu_backend")
    with (
        torch.no_grad(),
        config.patch(use_eager_fallback=False),
        pytest.raises(Exception, match="use_eager_fallback is off.*lgamma"),
    ):
        function(torch.ones(3, device="hpu"))


def test_flag_without_effect_is_told_once(store, caplog):
    with config.patch(use_graph_freezing=True):
        run(affine, X, W)
        run(affine, X, W)
    text = "option use_graph_freezing=True has no effect: weights are inputs"
    assert sum(text in record.message for record in caplog.records) == 1


def test_values_belong_to_the_thread():
    """As with torch's config modules, a thread does not see what another thread patches."""
    seen = []
    with config.patch(inference=False):
        thread = threading.Thread(target=lambda: seen.append(config.inference))
        thread.start()
        thread.join()
    assert seen == [True]


def test_environment_is_the_start_value():
    code = (
        "from habana_frameworks.torch.dynamo.compile_backend import config\n"
        "print(config.inference, config.compile_timeout_s, config.decomposition_mode)\n"
    )
    done = output_of(
        code,
        PT_HPU_USE_INFERENCE_COMPILER="off",
        HPU_COMPILE_TIMEOUT_S="7",
        PT_HPU_COMPILE_DECOMPOSITION_MODE="core_aten",
    )
    assert done.stdout.split() == ["False", "7.0", "core_aten"]
