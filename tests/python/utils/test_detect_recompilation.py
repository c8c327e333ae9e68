"""utils.experimental.detect_recompilation: dynamic data and dynamic operations (bridge.md, 3)."""

from __future__ import annotations

import csv

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from habana_frameworks.torch.utils.experimental import (
    const_shape_dataloader,
    data_dynamicity,
    detect_recompilation_auto_model,
)


class Positive(nn.Module):
    """Returns as many elements as are positive."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.ReLU()
        self.inner = nn.Sequential(nn.Identity(), Positive())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.scale(x))


def read(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_dynamic_operation_is_found(tmp_path, capsys):
    net = detect_recompilation_auto_model(Net().to("hpu"), "Top", 0.1, str(tmp_path / "out"))
    for values in ([1.0, 2.0, -1.0], [3.0, 4.0, -2.0], [1.0, -1.0, -1.0], [1.0, 1.0]):
        net(torch.tensor(values, device="hpu"))
    net.analyse_dynamicity()
    head, *rows = read(tmp_path / "out_1.csv")
    assert head == ["Step", "Recompiling modules", "New in", "New out", *head[4:]]
    modules = {"Top", "Top/scale", "Top/inner", "Top/inner/0", "Top/inner/1"}
    assert {row[1] for row in rows if row[0] == "0"} == modules
    assert not [row for row in rows if row[0] == "1"]
    known = "known input shapes, new output shapes: "
    assert [(row[1], row[2], row[4], row[6]) for row in rows if row[0] == "2"] == [
        ("Top/inner/1", "False", "Positive", known + "its operations are dynamic"),
        ("Top/inner", "False", "Sequential", known + "from a part of it"),
        ("Top", "False", "Net", known + "from a part of it"),
    ]
    assert {row[1] for row in rows if row[0] == "3"} == modules
    assert {row[6] for row in rows if row[0] == "3"} == {"new input shapes"}
    counts = dict(read(tmp_path / "out_2.csv")[1:])
    assert counts == {
        "Top": "3",
        "Top/inner": "3",
        "Top/inner/1": "3",
        "Top/scale": "2",
        "Top/inner/0": "2",
    }
    assert len(net.raw_logs()) == 20
    assert net.raw_logs()[0].startswith("[DETECT_RECOMPILE_AUTO][Top/scale] step:0 Recompilation!")
    assert "its operations are dynamic" in capsys.readouterr().out


def test_compiled_part_is_watched_as_a_whole(tmp_path):
    net = Net()
    net.scale = torch.compile(nn.Sequential(nn.ReLU()), backend="hpu_backend")
    net = detect_recompilation_auto_model(net.to("hpu"), csv_out=str(tmp_path / "out"))
    with torch.no_grad():
        for _ in range(2):
            got = net(torch.tensor([1.0, -2.0, 3.0], device="hpu"))
    assert got.cpu().tolist() == [1.0, 3.0]
    named = {line.partition("][")[2].partition("]")[0] for line in net.raw_logs()}
    assert "Net/scale" in named and "Net/scale/_orig_mod/0" not in named


def batches(*lengths):
    return [{"x": torch.ones(2, n), "y": [torch.ones(2), "text"]} for n in lengths]


def test_data_dynamicity(capsys):
    counts = data_dynamicity(DataLoader(batches(3, 5, 3), batch_size=None, collate_fn=None))
    assert list(counts.items()) == [
        ((("x", (2, 3)), ("y", ((2,), "text"))), 2),
        ((("x", (2, 5)), ("y", ((2,), "text"))), 1),
    ]
    assert "Number of unique shapes: 2" in capsys.readouterr().out


@pytest.mark.parametrize(("maxlen", "lengths"), [(2, [5, 5]), (9, [5, 5, 5])])
def test_const_shape_dataloader(maxlen, lengths):
    loader = const_shape_dataloader(batches(3, 5, 5, 3, 5), maxlen)
    assert [batch["x"].shape[1] for batch in loader] == lengths


def test_empty_loader():
    with pytest.raises(ValueError, match="no batches"):
        const_shape_dataloader([], 4)
    assert data_dynamicity([]) == {}
