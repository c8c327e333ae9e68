"""Grids of shapes, padding to them and back (habana_frameworks.torch.warmup)."""

from __future__ import annotations

import collections
import itertools

import pytest
import torch

from habana_frameworks.torch import warmup


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        (warmup.linear(16, 64, 16), [16, 32, 48, 64]),
        (warmup.linear(1, 20, 8), [1, 2, 4, 8, 16, 20]),
        (warmup.linear(3, 3, 8), [3]),
        (warmup.linear(10, 40, 16), [10, 16, 32, 40]),
        (warmup.exponential(1, 16), [1, 2, 4, 8, 16]),
        (warmup.exponential(3, 20), [3, 6, 12, 20]),
        (warmup.exponential(5, 5), [5]),
        (warmup.exponential(1, 64, count=4), [1, 4, 16, 64]),
        (warmup.exponential(128, 1024, count=3, step=128), [128, 384, 1024]),
    ],
)
def test_sizes(made, sizes):
    assert made == sizes


def test_limits_of_padding_thin_a_range():
    """A size stays where the next one would pad the worst input beyond a limit; 56
    goes, as 41 padded to 64 is 36 %, and 32, as 25 padded to 40 is 38 %."""
    assert warmup.linear(8, 64, 8, pad_percent=40) == [8, 16, 24, 40, 64]
    assert warmup.linear(8, 64, 8, pad_max=16) == [8, 24, 40, 56, 64]
    assert warmup.linear(8, 64, 8, pad_percent=0) == list(range(8, 65, 8))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: warmup.linear(0, 4, 1), "low 0: expected at least 1"),
        (lambda: warmup.linear(8, 4, 1), "low 8 is above high 4"),
        (lambda: warmup.exponential(1, 4, count=0), "count 0: expected at least 1"),
        (lambda: warmup.exponential(1, 4, count=10**12), "count 10.*: expected at most 1000000"),
        (lambda: warmup.exponential(1, 10**400, count=3), "high 10+: expected at most 9223372036"),
        (lambda: warmup.linear(1, 10**12, 1), "step 1: that makes 1000000000000 sizes up to"),
        (lambda: warmup.linear(1, 10**12, 7, pad_percent=50), "step 7: that makes 142857142857"),
        (lambda: warmup.Buckets(range(1, 10**12)), "batch: more than 1000000 sizes are given"),
        (lambda: warmup.Buckets([1], itertools.count(1)), "sequence: more than 1000000 sizes"),
        (
            lambda: warmup.Buckets(range(1, 1001), range(1, 102)),
            "1000 batch sizes and 101 sequence sizes make 101000 shapes, at most 100000: take a",
        ),
        (lambda: warmup.Buckets([]), "batch: no size is given"),
        (lambda: warmup.Buckets([1], [0]), "sequence: 0 is not a size"),
        (lambda: warmup.Buckets([1, 4]).fit(5), "batch 5 is above the largest bucket, 4"),
        (lambda: warmup.Buckets([1], [8]).fit(1, 9), "sequence 9 is above the largest bucket, 8"),
    ],
)
def test_what_cannot_be_is_named(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.fixture
def buckets():
    return warmup.Buckets(batch=warmup.exponential(1, 8), sequence=warmup.linear(16, 64, 16))


def test_the_smallest_shape_that_holds_the_sizes(buckets):
    assert buckets.fit(batch=3, sequence=50) == warmup.Shape(batch=4, sequence=64)
    assert buckets.fit(4, 48) == (4, 48)
    assert buckets.shapes()[0] == (8, 64)
    assert buckets.shapes()[-1] == (1, 16)
    assert len(buckets) == len(set(buckets.shapes())) == 16


def test_inputs_are_padded_and_outputs_cut(buckets):
    ids = torch.arange(1, 3 * 20 + 1).view(3, 20)
    padded = buckets.pad(
        {"ids": ids, "mask": torch.ones(3, 20), "lengths": torch.tensor([20, 9, 1]), "scale": 2.0},
        values={"ids": -1},
    )
    assert padded.shape == (4, 32)
    assert padded.inputs["ids"].shape == padded.inputs["mask"].shape == (4, 32)
    assert padded.inputs["lengths"].tolist() == [20, 9, 1, 0]
    assert padded.inputs["scale"] == 2.0
    assert padded.inputs["ids"][:3, :20].equal(ids)
    assert padded.inputs["ids"][3].unique().tolist() == [-1]
    assert padded.inputs["ids"][:, 20:].unique().tolist() == [-1]
    assert padded.inputs["mask"].sum() == 60
    logits = torch.randn(4, 32, 7)
    cut = padded.unpad({"logits": logits, "pooled": torch.ones(4, 5), "loss": torch.ones(())})
    assert cut["logits"].equal(logits[:3, :20])
    assert cut["pooled"].shape == (3, 5)
    assert cut["loss"].shape == ()
    assert padded.unpad((logits, [logits]))[1][0].shape == (3, 20, 7)


def test_features_that_have_the_size_of_the_sequence(buckets, told):
    """Nothing tells them apart, so the guess is logged, and axes decide."""
    padded = buckets.pad({"ids": torch.ones(3, 20)})
    pooled = torch.ones(4, 32)
    assert padded.unpad(pooled, axes=(0, None)).shape == (3, 32)
    assert padded.unpad({"a": pooled, "b": pooled}, axes={"a": (0, None)})["a"].shape == (3, 32)
    assert padded.unpad(pooled).shape == (3, 20)
    assert padded.unpad(pooled).shape == (3, 20)
    assert len(told()) == 1
    assert "padded sequence and was cut as such" in told()[0]
    with pytest.raises(ValueError, match=r"shape \[4, 9\] has no sequence of 32 in dimension 1"):
        padded.unpad(torch.ones(4, 9), axes=(0, 1))


def test_outputs_of_models_keep_their_type(buckets):
    from transformers.modeling_outputs import BaseModelOutput

    padded = buckets.pad({"ids": torch.ones(3, 20)})
    output = padded.unpad(BaseModelOutput(last_hidden_state=torch.ones(4, 32, 2)))
    assert type(output) is BaseModelOutput
    assert output.last_hidden_state.shape == (3, 20, 2)
    point = collections.namedtuple("Point", "x y")
    assert padded.unpad(point(torch.ones(4, 32, 2), 1)).x.shape == (3, 20, 2)


def test_other_axes_and_inputs_that_disagree(buckets):
    inputs = {"ids": torch.ones(20, 3), "table": torch.ones(7, 9)}
    with pytest.raises(ValueError, match="disagree about the batch: ids 20, table 7"):
        buckets.pad(inputs)
    padded = buckets.pad(inputs, axes={"ids": (1, 0), "table": (None, None)})
    assert padded.inputs["ids"].shape == (32, 4)
    assert padded.inputs["table"] is inputs["table"]
    with pytest.raises(ValueError, match="there is no input 'id': expected ids, table"):
        buckets.pad(inputs, values={"id": 1})
    images = warmup.Buckets(batch=[2, 4]).pad({"pixels": torch.ones(3, 5, 5)})
    assert images.shape == (4, 1)
    assert images.unpad(torch.ones(4, 5)).shape == (3, 5)


def test_waste_is_counted(buckets):
    buckets.pad({"ids": torch.ones(3, 20)})
    buckets.pad({"ids": torch.ones(4, 28)})
    buckets.pad({"ids": torch.ones(1, 16)})
    assert buckets.waste() == {(1, 16): 0.0, (4, 32): 1 - (60 + 112) / 256}
    assert buckets.calls() == {(1, 16): 1, (4, 32): 2}
    lines = buckets.table().splitlines()
    assert lines[2].split() == ["4x32", "2", "32.8%"]
    assert lines[3].split() == ["all", "3", "30.9%"]
