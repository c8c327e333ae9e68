"""Eager ops as recipes: results, writes, views, numbers, random numbers, errors, and the way that
each call takes (MODE-3, FALL-1 to FALL-4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from eager_case import needs_direct_calls, place_on_cpu, ways
from torch.utils._python_dispatch import TorchDispatchMode

from habana_frameworks.torch import native

_torch = native.torch_module()


@pytest.fixture(autouse=True)
def fresh_counts():
    _torch.reset_op_counts()
    _torch.forget_call_programs()


@pytest.fixture
def only_recipes():
    with place_on_cpu("none"):
        yield


@needs_direct_calls
def test_a_fill_with_a_pattern_of_eight_bytes_is_one_direct_call():
    x = torch.zeros(2, 17, dtype=torch.int64, device="hpu")
    _torch.forget_call_programs()
    before = ways("fill_")
    x.fill_(-100)
    assert x.tolist() == [[-100] * 17] * 2
    x.t()[2:4].fill_(7)
    assert x.sum().item() == 28 - 100 * 30
    assert [now - then for now, then in zip(ways("fill_"), before, strict=True)] == [0, 2, 0]


def x(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def same(function: Callable[..., Any], *tensors: torch.Tensor) -> None:
    """Compares a function's results, and its arguments afterwards, with those on the CPU."""
    ours, theirs = [t.to("hpu") for t in tensors], [t.clone() for t in tensors]
    got, wanted = function(*ours), function(*theirs)
    for a, b in zip((*_leaves(got), *ours), (*_leaves(wanted), *theirs), strict=True):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride() or b.numel() == 0
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)


def _leaves(value: Any) -> list[torch.Tensor]:
    return list(torch.utils._pytree.tree_leaves(value))


CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "two tensors": (lambda a, b: a + b, (x(3, 4), x(4))),
    "a number": (lambda a: a * 2.5 - 1, (x(3, 4),)),
    "a number where only tensors are declared": (lambda a: torch.remainder(a, 3), (x(3, 4),)),
    "in place": (lambda a, b: a.add_(b, alpha=2).mul_(0.5), (x(3, 4), x(3, 4))),
    "in place in a view": (lambda a: a[1:, ::2].exp_(), (x(4, 6),)),
    "in place with a number": (lambda a: a.abs_().pow_(2.5), (x(3, 4),)),
    "in place with itself": (lambda a: a.mul_(a), (x(3, 4),)),
    "in place through a transposed view": (lambda a: a.t().add_(1), (x(3, 4),)),
    "views as arguments": (lambda a: a[:, 1:] @ a.t()[:3, :], (x(4, 4),)),
    "an empty out": (lambda a: torch.add(a, 1, out=torch.empty(0, device=a.device)), (x(3, 4),)),
    "an out of the right size": (
        lambda a: torch.exp(a, out=torch.zeros(3, 4, device=a.device)),
        (x(3, 4),),
    ),
    "two outs": (
        lambda a: torch.max(
            a,
            1,
            out=(torch.empty(0, device=a.device), torch.empty(0, device=a.device).long()),
        ),
        (x(3, 4),),
    ),
    "a list": (lambda a, b: torch.cat([a, b, a], 1), (x(3, 4), x(3, 2))),
    "a list of results": (lambda a: torch.split(a * 2, 2, 1), (x(3, 5),)),
    "foreach": (lambda a, b: torch._foreach_mul([a, b], 2.0), (x(3), x(4, 2))),
    "foreach in place": (lambda a, b: torch._foreach_add_([a, b], [b[:, 0], b]), (x(4), x(4, 2))),
    "several results": (lambda a: a.topk(2, 1), (x(3, 5),)),
    "results without elements": (
        lambda a, b: torch.native_batch_norm(a, b, b, b, b * b + 1, False, 0.1, 1e-5),
        (x(2, 3, 4), x(3)),
    ),
    "statistics that no schema declares": (
        lambda a, m, v: torch.nn.functional.batch_norm(a, m, v, training=True),
        (x(4, 3, 5), x(3), x(3).abs()),
    ),
    "a type": (lambda a: a.to(torch.bfloat16).sum(0, dtype=torch.float32), (x(8, 4),)),
    "a copy between layouts": (lambda a: a.t().contiguous(), (x(3, 4),)),
    "a copy between types": (lambda a, b: b.copy_(a), (x(3, 4), torch.zeros(3, 4).int())),
    "a fill of a view": (lambda a: a[:, 1].fill_(3), (x(3, 4),)),
    "a fill of wide integers": (lambda a: a.fill_(7), (torch.zeros(3, dtype=torch.int64),)),
    "an index": (lambda a, i: a[i], (x(5, 3), torch.tensor([4, 0, 2]))),
    "an index on the CPU": (lambda a: a[torch.tensor([1, 3])], (x(5, 3),)),
    "a put": (lambda a, i: a.index_put_((i,), torch.ones_like(a[i])), (x(5, 3), torch.tensor([1]))),
    "a 0-d tensor of the CPU": (lambda a: a * torch.tensor(3.0), (x(3, 4),)),
    "a 0-d result": (lambda a: a.sum() + a.mean(), (x(3, 4),)),
    "a line of a 0-d tensor": (lambda a: (a.argmax(0), a.max(0)), (x(),)),
    "convolution": (lambda a, w: torch.conv2d(a, w, padding=1), (x(1, 2, 5, 5), x(3, 2, 3, 3))),
    "elements found by a mask": (lambda a: (a[a > 0], torch.nonzero(a > 0)), (x(4, 5),)),
    "nothing found": (lambda a: (a[a > 9], torch.nonzero(a > 9)), (x(4, 5),)),
    "as many elements as asked for, and more": (
        lambda a: tuple(torch.nonzero_static(a > 0, size=size) for size in (0, 3, 15, 30)),
        (x(4, 5),),
    ),
    "elements of a 0-d tensor, and none": (
        lambda a: tuple(
            torch.nonzero_static(b, size=3, fill_value=7) for b in (a[0, 0], a[:0], a > 9)
        ),
        (x(4, 5),),
    ),
    "combinations": (lambda a: torch.combinations(a, with_replacement=True), (x(5),)),
    "unique": (
        lambda a: torch.unique((a * 2).round(), return_inverse=True, return_counts=True),
        (x(6, 4),),
    ),
    "unique, consecutive": (
        lambda a: torch.unique_consecutive(a.round(), return_inverse=True, return_counts=True),
        (x(40),),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(only_recipes, name: str) -> None:
    function, tensors = CALLS[name]
    for _ in range(2):
        same(function, *tensors)
    assert sum(_torch.fallback_counts().values()) == 0


@needs_direct_calls
@pytest.mark.parametrize("name", CALLS)
def test_calls_before_they_are_worth_a_program(name: str) -> None:
    function, tensors = CALLS[name]
    same(function, *tensors)
    assert all(counts["recipes"] == 0 for counts in _torch.op_counts().values())


@needs_direct_calls
def test_a_signature_becomes_a_program_by_its_work() -> None:
    """8 million elements are worth a program, at 1,000 elements for each call and those of its
    arguments."""
    a = torch.ones(1000, 999, device="hpu")  # a call of this counts as a million
    for i in range(10):
        a.sin()
        assert ways("sin") == (max(0, i - 6), min(i + 1, 7), 0)
    b = torch.ones(999, 1000, device="hpu")
    b.sin()
    assert ways("sin") == (3, 8, 0)


def test_equal_signatures_share_a_program(only_recipes) -> None:
    loaded = _torch.launch_counters()["recipes_loaded"]
    first, second = x(37, 3).to("hpu"), x(37, 3, seed=1).to("hpu")
    first.cosh()
    second.cosh()
    (second * 1.0)[:, :].cosh()
    assert ways("cosh") == (3, 0, 0)
    assert _torch.launch_counters()["recipes_loaded"] == loaded + 2  # cosh and the product


@pytest.mark.parametrize(
    "other",
    [
        lambda a: a.t().sinh(),
        lambda a: a[:2].sinh(),
        lambda a: a.int().sinh(),
        lambda a: a.reshape(1, 12).sinh(),
    ],
)
def test_other_signatures_do_not(only_recipes, other: Callable[..., Any]) -> None:
    same(lambda a: (a.sinh(), other(a)), x(3, 4))


def test_numbers_are_told_apart(only_recipes) -> None:
    a = x(5)
    for number in (2, 2.0, True, -0.0, 0.0, float("nan"), float("inf"), 2**40, 1e-40):
        same(lambda t, n=number: t * n, a)
        same(lambda t, n=number: torch.add(t, t, alpha=2 if n is True else 3), a)
    same(lambda t: (1 / (t * 0.0), 1 / (t * -0.0)), torch.ones(3))


def test_shared_memory(only_recipes) -> None:
    """A call that writes what another argument covers in part has no program."""
    a = torch.arange(6.0).to("hpu")
    with pytest.raises(NotImplementedError, match="shares memory|overlaps"):
        a[1:].copy_(a[:-1] * 1).add_(a[:-1])
    with place_on_cpu(""):
        same(lambda t: t[1:].add_(t[:-1] * 1), torch.arange(6.0))
    b = torch.arange(6.0)
    same(lambda t: t[:3].add_(t[3:]), b)


def test_results_are_the_written_arguments(only_recipes) -> None:
    a = x(3).to("hpu")
    assert a.add_(1) is a
    out = torch.empty(3, device="hpu")
    assert torch.add(a, 1, out=out) is out


def test_versions_count_once(only_recipes) -> None:
    a = x(3).to("hpu")
    version = a._version
    a.add_(1)
    torch.exp(a, out=a)
    assert a._version == version + 2


def test_gradients(only_recipes) -> None:
    w, v = x(4, 3).requires_grad_(), x(4, 3).to("hpu").requires_grad_()
    for t in (w, v):
        (torch.nn.functional.gelu(t.t() @ t).softmax(0) * t[:3]).sum().backward()
    torch.testing.assert_close(v.grad.cpu(), w.grad)
    saved = v.exp()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.add_(1).sum().backward()


@pytest.mark.parametrize(
    "draw",
    [
        lambda t: t.uniform_(-1, 2),
        lambda t: t.normal_(1, 0.5),
        lambda t: t.bernoulli_(0.3),
        lambda t: t.long().random_(0, 100),
        lambda t: torch.nn.functional.dropout(t, 0.4),
        lambda t: torch.randperm(t.numel(), device=t.device).float(),
        lambda t: torch.rand_like(t),
    ],
)
def test_random_numbers_do_not_depend_on_the_way(draw: Callable[..., Any]) -> None:
    results = []
    for place in ("", "none") if "randperm" not in draw.__code__.co_names else ("", ""):
        with place_on_cpu(place):
            torch.hpu.manual_seed(3)
            a = torch.ones(5, 7).to("hpu")
            results.append((draw(a).cpu(), draw(a).cpu(), torch.hpu.get_rng_state()))
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)
    assert not torch.equal(results[0][0], results[0][1])


def test_a_generator_of_the_users_own_runs_on_the_host() -> None:
    generator = torch.Generator("hpu").manual_seed(5)
    with (
        place_on_cpu("none"),
        pytest.raises(NotImplementedError, match="a generator of its own"),
    ):
        torch.empty(3, device="hpu").uniform_(generator=generator)


@pytest.mark.parametrize("place", ["", "none"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
        lambda d: torch.ones(3, device=d).sum(4),
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, device=d)]),
        lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
        lambda d: torch.ones(3, device=d, dtype=torch.int32).mul_(1.5),
        lambda d: torch.ones(2, 3, device=d).topk(7),
        lambda d: torch.conv2d(torch.ones(1, 2, 3, 3, device=d), torch.ones(1, 3, 1, 1, device=d)),
        lambda d: torch.nn.functional.embedding(
            torch.ones(2, device=d), torch.ones(2, 2, device=d)
        ),
    ],
)
def test_wrong_arguments_raise_what_the_cpu_raises(place: str, wrong: Callable[..., Any]) -> None:
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        wrong("cpu")
    with place_on_cpu(place), pytest.raises(wanted.type) as raised:
        wrong("hpu")
    assert not isinstance(raised.value, NotImplementedError)
    assert (torch.ones(2, device="hpu") * 2).tolist() == [2, 2]


def test_what_no_recipe_holds_is_named() -> None:
    a = x(4).abs().to("hpu")
    with (
        place_on_cpu("none"),
        pytest.raises(NotImplementedError, match=r"aten::lgamma has no hpu kernel for this call "
        r"\(no rule for this operator\), and PT_HPU_PLACE_ON_CPU=none"),
    ):  # fmt: skip
        a.lgamma()
    torch.testing.assert_close(a.lgamma().cpu(), a.cpu().lgamma())
    assert ways("lgamma") == (0, 0, 1)


def test_modes_of_the_caller_do_not_reach_the_capture(only_recipes) -> None:
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    a = x(3, 11).to("hpu")
    with Watch(), torch.autocast("hpu", torch.bfloat16):
        b = a.tanh()
    assert seen == ["aten.tanh.default"]
    torch.testing.assert_close(b.cpu(), a.cpu().tanh())
    with torch.inference_mode():
        c = a.atan()
    assert c.is_inference()
    assert torch.func.vmap(torch.sin)(a).shape == a.shape


def test_threads_and_streams(only_recipes) -> None:
    """Eight threads on eight streams compile the same calls and run them."""
    results: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        with torch.hpu.stream(torch.hpu.Stream()):
            a = x(13, 13, seed=number).to("hpu")
            for _ in range(20):
                a = (a @ a).tanh().add_(0.5)
            results[number] = a.cpu()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in results.items():
        a = x(13, 13, seed=number)
        for _ in range(20):
            a = (a @ a).tanh().add_(0.5)
        torch.testing.assert_close(result, a)


def test_many_signatures_fit(only_recipes) -> None:
    """More numbers than the table of an operator has room for."""
    with place_on_cpu(""):
        a = torch.ones(2, device="hpu")
        for number in range(5000):
            a.add(float(number))
    assert a.add(7.0).tolist() == [8, 8]


@pytest.mark.parametrize("place", ["", "none"])
def test_out_of_memory_is_one_error(place: str) -> None:
    """A result that does not fit raises what an allocation raises, and the device goes on."""
    a = torch.ones(1 << 20, 1, device="hpu")
    with place_on_cpu(place):
        with pytest.raises(torch.OutOfMemoryError, match=r"tried to allocate 4\.00 TiB"):
            a + a.t()
        with pytest.raises(torch.OutOfMemoryError, match=r"tried to allocate 4\.00 TiB"):
            torch.empty(1 << 40, device="hpu")
    assert (a[:2] * 2).tolist() == [[2.0], [2.0]]


def test_printing_needs_no_operator(only_recipes) -> None:
    a = x(3, 4)
    ours = a.to("hpu")
    _torch.reset_op_counts()
    assert repr(ours) == repr(a)[:-1] + ", device='hpu:0')"
    assert _torch.op_counts() == {}
