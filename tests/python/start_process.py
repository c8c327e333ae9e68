"""One process of the tests of starts: a model in a variant, its first output, and how it came.

start_process.py VARIANT        prints one JSON object
"""

from __future__ import annotations

import json
import sys

import torch
import torch.nn.functional as F

FACTOR = 2.0


def scale(x, by=1.5):
    return x * by


class Net(torch.nn.Module):
    gain = 3.0

    def __init__(self, width=8, slope=0.5):
        super().__init__()
        self.layer = torch.nn.Linear(4, width)
        self.slope = slope

    def activation(self, x):
        return F.gelu(x) * self.gain

    def forward(self, x):
        return scale(self.activation(self.layer(x))) * FACTOR + self.slope


class Broken(Net):
    def forward(self, x):
        y = self.layer(x)
        torch._dynamo.graph_break()
        return scale(self.activation(y)) * FACTOR


def other_activation(self, x):
    return F.relu(x) * self.gain


def main(variant):
    global FACTOR
    options = {"start_without_tracing": True}
    kind, arguments, train, rows = Net, {}, False, 3
    if variant == "factor":
        FACTOR = 5.0
    elif variant == "gain":
        Net.gain = 4.0
    elif variant == "default":
        scale.__defaults__ = (2.5,)
    elif variant == "slope":
        arguments = {"slope": 0.25}
    elif variant == "width":
        arguments = {"width": 6}
    elif variant == "patched-method":
        Net.activation = other_activation
    elif variant == "patched-function":
        F.gelu = F.silu
    elif variant == "patched-helper":
        globals()["scale"] = lambda x, by=1.5: x + by
    elif variant == "rows":
        rows = 5
    elif variant == "option":
        options["deterministic"] = True
    elif variant == "break":
        kind = Broken
    elif variant in ("train", "train-relu"):
        train = True
        if variant == "train-relu":
            Net.activation = other_activation
    torch.manual_seed(0)
    model = kind(**arguments)
    x = torch.randn(rows, 4)
    if variant == "hook":
        model.layer.register_forward_hook(lambda module, inputs, output: output + 1)
    if variant == "dtype":
        model, x = model.bfloat16(), x.bfloat16()
    model, x = model.to("hpu"), x.to("hpu")
    if variant == "frozen-weight":
        model.layer.weight.requires_grad_(False)
    compiled = torch.compile(model, backend="hpu_backend", options=options)

    def run(function):
        model.zero_grad()
        if not train:
            with torch.no_grad():
                return [function(x).cpu()]
        out = function(x)
        out.square().sum().backward()
        return [out.detach().cpu(), model.layer.weight.grad.cpu()]

    got, want = run(compiled), run(model)
    if variant == "miss-after":
        x = torch.cat([x, x])
        got, want = got + run(compiled), want + run(model)
    from habana_frameworks.torch.dynamo import report
    from habana_frameworks.torch.dynamo.start import journal

    tolerance = 2e-2 if variant == "dtype" else 1e-5
    print(
        json.dumps(
            {
                "right": all(
                    torch.allclose(g, w, rtol=tolerance, atol=tolerance)
                    for g, w in zip(got, want, strict=True)
                ),
                "traced": [bool(outcome.reason) for outcome in journal.outcomes()],
                "reasons": [outcome.reason for outcome in journal.outcomes()],
                "report": [graph.lines()[0] for graph in report().graphs],
                "kept": [outcome.not_kept for outcome in journal.outcomes()],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
