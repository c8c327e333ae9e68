"""The key's text of foreign functions: equal content has equal text, and any change has another
text."""

from __future__ import annotations

import os

import pytest
import torch

from habana_frameworks.torch.dynamo.fingerprints.function_text import Uncacheable, function_text


def made(source: str, **names: object) -> object:
    scope: dict[str, object] = {"torch": torch, "__name__": "somebody", **names}
    exec(source, scope)
    return scope["f"]


BASE = "def f(x, dim=1):\n    return torch.sum(x, dim) * 2"


def test_equal_content_has_equal_text():
    assert function_text(made(BASE)) == function_text(made(BASE))
    assert function_text(made(BASE)).startswith("somebody.f#")


@pytest.mark.parametrize(
    "other",
    [
        "def f(x, dim=1):\n    return torch.sum(x, dim) * 3",
        "def f(x, dim=0):\n    return torch.sum(x, dim) * 2",
        "def f(x, *, dim=1):\n    return torch.sum(x, dim) * 2",
        "def f(x, dim=1):\n    return torch.mean(x, dim) * 2",
        "def f(x, dim=1):\n    return (lambda y: y)(torch.sum(x, dim) * 2)",
    ],
)
def test_a_change_changes_the_text(other):
    assert function_text(made(BASE)) != function_text(made(other))


def test_what_a_function_refers_to_is_part_of_it():
    source = "def f(x):\n    return helper(x) * factor"
    helpers = [made(f"def f(x):\n    return x + {n}") for n in (1, 1, 2)]
    texts = [function_text(made(source, helper=h, factor=2)) for h in helpers]
    assert texts[0] == texts[1] != texts[2]
    assert function_text(made(source, helper=helpers[0], factor=3)) != texts[0]


def test_pytorchs_own_functions_have_names():
    assert function_text(torch.relu) == "torch.relu"
    source = "def f(x):\n    return original(x)"
    assert function_text(made(source, original=torch.gather)) != function_text(
        made(source, original=torch.sort)
    )


def test_an_operator_without_an_overload_has_a_name():
    """torch.ops.aten.slice stands like this in the graph of an associative scan."""
    assert function_text(torch.ops.aten.slice) == "aten::slice"
    assert function_text(torch.ops.quantized.add).startswith("quantized::add#")


def test_a_name_without_a_value_is_refused():
    def outer():
        def function(x):
            return later(x)

        text = function_text(function)
        later = torch.relu
        return text, later

    with pytest.raises(Uncacheable, match="later, which has no value yet"):
        outer()


@pytest.mark.parametrize("name", [os, object(), torch.zeros(2)], ids=["module", "object", "tensor"])
def test_what_cannot_be_described_is_refused(name):
    with pytest.raises(Uncacheable, match="refers to"):
        function_text(made("def f(x):\n    return x + thing", thing=name))
