"""A process whose PyTorch lacks something: one forked child for each line of standard input.

A line is "module NAME", a module of torch_compat/ that cannot be imported, or "function NAME", a
row of replaced.ROWS whose function has other parameters. Each child compiles a model for inference
and for training and prints one line of JSON: results, warnings, and what became of its graphs.
"""

from __future__ import annotations

import importlib
import importlib.abc
import json
import logging
import os
import sys
import traceback

import torch
import torch._dynamo

PACKAGE = "habana_frameworks.torch.torch_compat"


class _Lacking(importlib.abc.MetaPathFinder):
    def __init__(self, name):
        self.name = f"{PACKAGE}.{name}"

    def find_spec(self, fullname, path, target=None):
        if fullname == self.name:
            raise ImportError(f"cannot import name 'something' for {fullname}")
        return None


def change(path):
    module, _, attribute = path.rpartition(".")
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        module, _, cls = module.rpartition(".")
        owner = getattr(importlib.import_module(module), cls)
    before = getattr(owner, attribute)

    def changed(*arguments, **keywords):
        return before(*arguments, **keywords)

    setattr(owner, attribute, changed)


class _Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def run(number):
    warnings = _Warnings()
    logging.getLogger("habana_frameworks.torch").addHandler(warnings)
    from habana_frameworks.torch.torch_compat import features

    torch.manual_seed(0)
    # Another graph in each child: none has a stored program.
    width = 8 + int(number)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)
    )
    x = torch.randn(3, 4)
    want = model(x)
    want.sum().backward()
    gradient = model[0].weight.grad.clone()
    model.zero_grad()
    model.to("hpu")
    compiled = torch.compile(model, backend="hpu_backend")
    with torch.no_grad():
        inference = compiled(x.to("hpu")).cpu()
    training = compiled(x.to("hpu"))
    training.sum().backward()
    right = [
        torch.allclose(inference, want, atol=1e-5),
        torch.allclose(training.cpu(), want, atol=1e-5),
        torch.allclose(model[0].weight.grad.cpu(), gradient, atol=1e-5),
    ]
    origins = []
    if not features.is_off(features.COMPILING):
        from habana_frameworks.torch.dynamo import report

        origins = [graph.origin for graph in report().graphs]
    return {
        "right": right,
        "origins": origins,
        "off": sorted(features._off),
        "told": warnings.texts,
    }


def child(number, kind, name):
    if kind == "module":
        sys.meta_path.insert(0, _Lacking(name))
    else:
        change(name)
    try:
        return run(number)
    except BaseException:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    for number, line in enumerate(sys.stdin):
        told, tells = os.pipe()
        if os.fork() == 0:
            os.close(told)
            with os.fdopen(tells, "w") as file:
                json.dump(child(number, *line.split()), file)
            os._exit(0)
        os.close(tells)
        with os.fdopen(told) as file:
            print(file.read(), flush=True)
        os.wait()
