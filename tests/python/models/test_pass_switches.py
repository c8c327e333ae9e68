"""Each pass of the compile server is switched off in turn, over the captured graphs of models: the
reference interpreter gets the same numbers. Without `decompose` it has no ops to run."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import torch
from paths import hpu_opt
from torch import nn

from habana_frameworks.torch.dynamo.records.graph_watch import watched

TIMEOUT_S = 120
TOLERANCE = 2e-4


def run_hpu_opt(*arguments):
    tool = hpu_opt()
    if tool is None:
        pytest.skip("hpu_opt is not built")
    return subprocess.run(
        [str(tool), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


class Attention(nn.Module):
    """A layer of a transformer with its attention spelt out, so that a pass has to find it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(16)
        self.q, self.v = nn.Linear(16, 16), nn.Linear(16, 16)
        # The gradient of a bias of keys is 0: what comes of it is rounding alone.
        self.k = nn.Linear(16, 16, bias=False)
        self.out = nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.first(x)
        heads = [m(y).view(2, 6, 4, 4).transpose(1, 2) for m in (self.q, self.k, self.v)]
        q, k, v = heads
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2.0, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(2, 6, 16))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.second, self.last = nn.Conv2d(8, 8, 3, stride=2), nn.Linear(8, 5)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        y = torch.nn.functional.max_pool2d(self.second(y), 2)
        return self.last(y.mean((2, 3)))


class Quantized(nn.Module):
    """A product with weights of 8 bits and a factor per column."""

    def __init__(self) -> None:
        super().__init__()
        numbers = torch.arange(-64, 64, dtype=torch.int8).reshape(8, 16)
        self.register_buffer("weights", numbers)
        self.register_buffer("scale", torch.linspace(0.01, 0.02, 8))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weights.to(x.dtype)) * self.scale


MODELS = {
    "attention": (Attention, (2, 6, 16)),
    "convolutions": (Convolutions, (2, 3, 12, 12)),
    "lstm": (lambda: nn.LSTM(6, 8, batch_first=True), (2, 4, 6)),
    "quantized": (Quantized, (3, 16)),
}
# Passes that rewrite nothing in these graphs; tests/passes has graphs for each.
UNMOVED = {"eager-operands", "fold", "merge-products", "rematerialize"}


def captured(make, shape, train):
    torch.manual_seed(1)
    model = make().to("hpu").train(train)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to("hpu")
    graphs = []
    with watched(lambda record, graph: graphs.append(graph.graph)):
        compiled = torch.compile(model, backend="hpu_backend", dynamic=False)
        if train:
            outputs = compiled(x)
            outputs = outputs[0] if isinstance(outputs, tuple) else outputs
            outputs.sum().backward()
        else:
            with torch.no_grad():
                compiled(x)
    assert len(graphs) == 1
    return graphs[0]


def evaluated(path, *arguments):
    done = run_hpu_opt(
        str(path), "--captured", "--pipeline", "--evaluate", "--values", "--json", *arguments
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def numbers(tensors):
    return [torch.tensor([float(x) for x in t["data"]], dtype=torch.float64) for t in tensors]


def pass_names(path):
    answer = run_hpu_opt(str(path), "--captured", "--pipeline", "--disable", "no-such-pass").stderr
    return re.findall(r"[a-z-]+", answer.partition("there are")[2])


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_results_are_equal_without_any_one_pass(tmp_path, train):
    moved = set()
    for name, (make, shape) in MODELS.items():
        if train and name == "quantized":
            continue
        path = tmp_path / f"{name}.graph"
        path.write_bytes(captured(make, shape, train))
        names = pass_names(path)
        assert {"decompose", "simplify", "layout", "attention"} <= set(names)
        whole = evaluated(path)
        for left_out in names:
            if left_out == "decompose":
                continue
            report = evaluated(path, "--disable", left_out)
            if report["graph"] != whole["graph"]:
                moved.add(left_out)
            pairs = zip(
                numbers(report["outputs"] + report["inputs_after"]),
                numbers(whole["outputs"] + whole["inputs_after"]),
                strict=True,
            )
            for ours, theirs in pairs:
                scale = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
                worst = (ours - theirs).abs().max().item() / scale if theirs.numel() else 0.0
                assert worst <= TOLERANCE, f"{name} without {left_out}: {worst}"
    if not train:
        assert {n for n in names if n != "decompose"} - moved == UNMOVED
