"""An index outside of its dimension is no error on hpu, as on a card: a read gives 0 and a write
writes nothing. PT_HPU_CHECK_INDICES=1 makes it an error that names operator, index and
line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from eager_case import needs_direct_calls, place_on_cpu, ways
from lazy_case import lazy_mode
from processes import run_python
from torch import Tensor

_ROWS = 5
_INDEX = [3, -1, 0, 7, -9, 2**40]  # 3 and 0 are inside
_INSIDE = [0, 2]


def _rows(count: int = len(_INDEX)) -> Tensor:
    return torch.arange(100.0, 100.0 + 4 * count).reshape(count, 4)


# Each case takes the tensor that is written, the positions of the calls' sources that take part,
# and a device.
def _index(part: list[int], device: str) -> Tensor:
    return torch.tensor(_INDEX)[part].to(device)


def _full(part: list[int], device: str) -> Tensor:
    return _index(part, device)[:, None].expand(-1, 4)


def _source(part: list[int], device: str) -> Tensor:
    return _rows()[part].to(device)


Case = Callable[[Tensor, list[int], str], Tensor]

WRITES: dict[str, Case] = {
    "index_copy": lambda x, p, d: x.index_copy(0, _index(p, d), _source(p, d)),
    "index_copy_": lambda x, p, d: x.index_copy_(0, _index(p, d), _source(p, d)),
    "index_add": lambda x, p, d: x.index_add(0, _index(p, d), _source(p, d)),
    "index_add_": lambda x, p, d: x.index_add_(0, _index(p, d), _source(p, d)),
    "index_reduce_": lambda x, p, d: x.index_reduce_(0, _index(p, d), _source(p, d), "amax"),
    "scatter": lambda x, p, d: x.scatter(0, _full(p, d), _source(p, d)),
    "scatter_ of a number": lambda x, p, d: x.scatter_(0, _full(p, d), 9.0),
    "scatter_add_": lambda x, p, d: x.scatter_add_(0, _full(p, d), _source(p, d)),
    "scatter_reduce": lambda x, p, d: x.scatter_reduce(0, _full(p, d), _source(p, d), "amin"),
    "the other dimension": lambda x, p, d: (
        x.t().contiguous().index_copy(1, _index(p, d), _source(p, d).t())
    ),
}
# These take negative positions, so -1 is inside.
WRAPPED_WRITES: dict[str, Case] = {
    "index_fill": lambda x, p, d: x.index_fill(0, _index(p, d), 9.0),
    "index_put": lambda x, p, d: x.index_put((_index(p, d),), _source(p, d)),
    "index_put_ that adds": lambda x, p, d: x.index_put_(
        (_index(p, d),), _source(p, d), accumulate=True
    ),
    "index_put of columns": lambda x, p, d: x.t().index_put(
        (torch.tensor(1, device=d), _index(p, d)), _source(p, d)[:, 0]
    ),
    "put": lambda x, p, d: x.reshape(-1)[:_ROWS].put(_index(p, d), _source(p, d)[:, 0]),
}
READS: dict[str, Case] = {
    "index_select": lambda x, p, d: x.index_select(0, _index(p, d)),
    "index_select of integers": lambda x, p, d: (100 * x).long().index_select(0, _index(p, d)),
    "gather": lambda x, p, d: x.gather(0, _full(p, d)),
    "embedding": lambda x, p, d: torch.nn.functional.embedding(_index(p, d), x),
}
WRAPPED_READS: dict[str, Case] = {
    "index": lambda x, p, d: x[_index(p, d)],
    "take": lambda x, p, d: x.reshape(-1)[:_ROWS].take(_index(p, d)),
}


def _table() -> Tensor:
    return torch.linspace(-3, 3, 4 * _ROWS).reshape(_ROWS, 4)


def _eager(run: Case) -> Tensor:
    return run(_table().to("hpu"), list(range(len(_INDEX))), "hpu").cpu()


def _recipes(run: Case) -> Tensor:
    with place_on_cpu("none"):
        return _eager(run)


def _lazy(run: Case) -> Tensor:
    with lazy_mode():
        return _eager(run)


def _compiled(run: Case) -> Tensor:
    compiled = torch.compile(run, backend="hpu_backend", fullgraph=True)
    return compiled(_table().to("hpu"), list(range(len(_INDEX))), "hpu").cpu()


WAYS = {"eager": _eager, "recipes": _recipes, "lazy": _lazy, "compiled": _compiled}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*WRITES, *WRAPPED_WRITES])
def test_writes_outside_write_nothing(name: str, way: str) -> None:
    run = WRITES.get(name) or WRAPPED_WRITES[name]
    inside = _INSIDE if name in WRITES else [0, 1, 2]
    expected = run(_table(), inside, "cpu")
    torch.testing.assert_close(WAYS[way](run), expected, rtol=0, atol=0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*READS, *WRAPPED_READS])
def test_reads_outside_give_zero(name: str, way: str) -> None:
    run = READS.get(name) or WRAPPED_READS[name]
    inside = _INSIDE if name in READS else [0, 1, 2]
    found = WAYS[way](run)
    expected = torch.zeros_like(found)
    expected[inside] = run(_table(), inside, "cpu")
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("way", WAYS)
def test_groups_of_padding_have_a_finite_maximum(way: str) -> None:
    """Paged attention of vLLM pads the groups of its blocks with -1: their maxima are written
    nowhere, and what is read for them must not be the -inf of a group without blocks."""

    def run(x: Tensor, part: list[int], device: str) -> Tensor:
        groups = torch.tensor([0, 1, 0, -1], device=device)
        none = torch.full((3,), float("-inf"), device=device)
        largest = none.index_reduce_(0, groups, x[:4, 0], "amax")
        return (x[:4, 0] - largest.index_select(0, groups)).exp()

    found = WAYS[way](run)
    first = _table()[:4, 0]
    largest = torch.tensor([first[2], first[1], first[2], 0.0])
    torch.testing.assert_close(found, (first - largest).exp())


@pytest.mark.parametrize("way", ["eager", "recipes"])
def test_labels_outside_are_no_error(way: str) -> None:
    scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    labels = torch.tensor([1, 9, -100])  # the last one counts for nothing
    loss = WAYS[way](
        lambda x, p, d: torch.nn.functional.nll_loss(scores.to(d), labels.to(d), reduction="none")
    )
    assert loss[0] == -scores[0, 1]
    assert loss[2] == 0
    assert loss[1] == 0


def test_a_one_hot_row_of_padding_is_empty() -> None:
    found = torch.nn.functional.one_hot(torch.tensor([-1, 2, 0], device="hpu"), 3)
    assert found.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]


@needs_direct_calls
def test_calls_inside_stay_direct() -> None:
    x = torch.zeros(7, 3, device="hpu")
    before = ways("index_copy_")
    x.index_copy_(0, torch.tensor([1, 5], device="hpu"), torch.ones(2, 3, device="hpu"))
    assert ways("index_copy_") == (before[0], before[1] + 1, before[2])


_CHECKED = """
import torch
import habana_frameworks.torch

x = torch.zeros(4, 3, device="hpu")
index = torch.tensor([0, 4], device="hpu")

def read(x, index):
    return x.index_select(0, index)

{call}
"""


@pytest.mark.parametrize("mode", ["0", "1"])
@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("read(x, index)", "index_select at {file}:9"),
        ('torch.compile(read, backend="hpu_backend")(x, index)', "index_select at {file}:9"),
        ("x.index_copy_(0, index, x[:2])", "index_copy_ at {file}:11"),
        ("torch.nn.functional.nll_loss(x.t()[:2, :4], index)", "nll_loss_forward at {file}:11"),
    ],
)
def test_the_switch_names_operator_index_and_line(
    call: str, line: str, mode: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(_CHECKED.format(call=call))
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = run_python(code, PT_HPU_CHECK_INDICES="1", PT_HPU_LAZY_MODE=mode)
    expected = (
        f"IndexError: {line.format(file=script)}: index 4 at position 1 of its tensor is outside "
        f"of dimension {int('nll' in call)}, which has 4 elements "
        "(checked because of PT_HPU_CHECK_INDICES)"
    )
    assert expected in done.stderr
