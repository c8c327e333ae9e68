"""Later shapes of a graph that are captured inside inference mode."""

from __future__ import annotations

import pytest
import torch

from habana_frameworks.torch.dynamo import report


def written_and_viewed(cache, index, x, scale):
    """A cache in pages, as servers of language models have it."""
    cache.index_copy_(0, index, x)
    pages = cache.unflatten(0, (4, 2))
    return (pages * scale).sum(), pages.relu()


def view_returned(cache, index, x, scale):
    cache.index_copy_(0, index, x)
    pages = cache.unflatten(0, (4, 2))
    return (pages * scale).sum(), pages


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("made_inside", [False, True], ids=["tensors", "inference_tensors"])
@pytest.mark.parametrize(
    ("function", "parted_because"),
    [
        (written_and_viewed, ""),
        (view_returned, "the graph returns a view of an input that it writes to"),
    ],
)
def test_every_shape_is_compiled(function, parted_because, made_inside, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=dynamic)
    scale = torch.linspace(-1, 1, 4)
    for count in (2, 3, 4):
        with torch.inference_mode(made_inside):
            cache, ours = torch.zeros(8, 4), torch.zeros(8, 4, device="hpu")
            index, x = torch.arange(count), torch.arange(4.0 * count).view(count, 4)
            given = [tensor.to("hpu") for tensor in (index, x, scale)]
        with torch.inference_mode():
            wanted = function(cache, index, x, scale)
            got = compiled(ours, *given)
        for a, b in zip((ours, *got), (cache, *wanted), strict=True):
            torch.testing.assert_close(a.cpu(), b)
    graphs = report().graphs[-3:]
    assert [graph.eager_nodes for graph in graphs] == [0, 0, 0]
    assert {graph.parted_because for graph in graphs} == {parted_because}
