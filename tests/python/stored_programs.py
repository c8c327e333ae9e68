"""Three programs in a store (fixture `stored` of conftest.py), and the answers of hpu-compile about
it."""

from __future__ import annotations

import json

import torch
from helpers import fresh_process

from habana_frameworks.torch import cli
from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.service import service


def run(rows: int, **options: object):
    fresh_process()
    service.forget_programs()
    compiled = torch.compile(
        lambda x: x.tanh() * 3, backend="hpu_backend", dynamic=False, options=options
    )
    with torch.no_grad():
        out = compiled(torch.ones(rows, 5, device="hpu"))
    torch.testing.assert_close(out.cpu(), torch.ones(rows, 5).tanh() * 3)
    return report().graphs[-1]


def ask(capsys, *arguments: object, code: int = 0):
    assert cli.main([*(str(a) for a in arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def refusal(capsys, *arguments: object) -> str:
    assert cli.main([str(a) for a in arguments]) == 1
    return capsys.readouterr().err
