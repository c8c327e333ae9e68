"""A call of a function that is captured once and replayed with other tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ... import native
from ..storages import give_memory_to_what_python_touches
from ..streams import StreamContext, current_stream
from .module_state import ModuleState
from .values import NotCapturable, tensors_in, with_tensors


class OtherTensors(Exception):
    """The tensors of a replay differ from the captured ones in sizes, strides or types."""


def _captured(run: Callable[[], Any], tensors_of: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The result of `run` and the ReplayableCall of its operators. `tensors_of` gives the rest of
    end_call's arguments for the result."""
    device = native.torch_module()
    give_memory_to_what_python_touches()
    torch.clear_autocast_cache()  # a cast weight of the cache would not follow the weight
    capture = device.begin_capture()
    try:
        result = run()
        return result, device.end_call(capture, *tensors_of(result))
    except BaseException:
        device.abandon_capture(capture)
        raise
    finally:
        torch.clear_autocast_cache()


def _leaves(results: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The leaves of autograd's graph of these tensors."""
    waiting, seen = [result.grad_fn for result in results], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [after for after, _ in node.next_functions]


class CapturedCall:
    """One captured call, of a function with these arguments.

    tensors: those of the arguments; state: the module that the function uses besides. A replay
    reads and writes the tensors that it is given, in their place, and makes new results. If the
    call is differentiable, so is a replay. The memory that its backward needs is made by the replay
    and goes with it, as in eager mode, and the backward is captured when it is first wanted.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: Sequence[torch.Tensor],
        state: ModuleState,
        differentiable: bool,
    ) -> None:
        stand_in_for = native.torch_module().stand_in_for
        stand_ins = [
            stand_in_for(t).requires_grad_(differentiable and t.requires_grad) for t in tensors
        ]
        names = {id(t): s for t, s in zip(tensors, stand_ins, strict=True)}
        args, kwargs = with_tensors(arguments, names)

        def run() -> Any:
            with torch.set_grad_enabled(differentiable):
                result = function(*args, **kwargs)
            return result, tensors_in(result)

        with state.stood_in_for() as others:
            given = [*stand_ins, *others]
            (result, results), self._call = _captured(
                run, lambda made: (given, made[1], differentiable)
            )
        self.written = {i for i, written in enumerate(self._call.writes) if written}
        wanted = [result for result in results if differentiable and result.requires_grad]
        if wanted:
            self._check_gradients(wanted, given)
        self._names = [result.detach() for result in results]
        self._result = with_tensors(
            result, {id(old): new for old, new in zip(results, self._names, strict=True)}
        )
        self._differentiable = [differentiable and result.requires_grad for result in results]
        self._backward: _Backward | None = None
        # The capture of the backward needs this: autograd's graph of the captured call.
        self._graph = (wanted, given) if wanted else None
        self._stream = current_stream()

    def _check_gradients(
        self, results: Sequence[torch.Tensor], given: Sequence[torch.Tensor]
    ) -> None:
        known = {id(tensor) for tensor in given}
        if any(id(leaf) not in known for leaf in _leaves(results)):
            raise NotCapturable("it needs a gradient of a tensor that is no argument")
        for i in self.written:
            if given[i].requires_grad:
                raise NotCapturable("it writes to a tensor that needs a gradient")

    def __call__(self, tensors: Sequence[torch.Tensor], state: Sequence[torch.Tensor]) -> Any:
        """Replays. Raises OtherTensors, or AliasedInputs for a tensor that is written and overlaps
        with another one; nothing has happened then."""
        given = [*tensors, *state]
        differentiable = any(self._differentiable)
        results = _Replay.apply(self, *given) if differentiable else self.run(given)[0]
        return with_tensors(
            self._result, {id(old): new for old, new in zip(self._names, results, strict=True)}
        )

    def run(self, given: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        made: tuple[list[torch.Tensor], list[torch.Tensor]] | None = self._call.run(given)
        if made is None:
            raise OtherTensors
        return made

    def constants(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results that have no gradient."""
        return [r for r, has in zip(results, self._differentiable, strict=True) if not has]

    def needs(self, count: int) -> Sequence[int]:
        """The places of what the backward needs, among the `count` tensors that a forward is given
        or makes: all, as long as it is not known."""
        return range(count) if self._backward is None else self._backward.needs

    def check_backward(self) -> None:
        """Records the backward and drops the recording, which compiles nothing. Raises what makes
        a capture of the backward impossible."""
        if self._graph is None:
            return
        results, given = self._graph
        device = native.torch_module()
        with StreamContext(self._stream):
            capture = device.begin_capture()
            try:
                _gradients(results, given, _tangents(results), retain_graph=True)
            finally:
                device.abandon_capture(capture)

    def capture_backward(self, allow_unused: bool = True) -> None:
        """Captures the backward now. Raises what makes that impossible."""
        if self._graph is None:
            return
        results, given = self._graph
        with StreamContext(self._stream):
            self._backward = _Backward(results, given, self._call.made, allow_unused)
        self._graph = None

    def run_backward(
        self, kept: dict[int, torch.Tensor], tangents: Sequence[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        self.capture_backward()
        assert self._backward is not None
        wanted = [t for t, has in zip(tangents, self._differentiable, strict=True) if has]
        return self._backward(kept, wanted)


def _tangents(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    stand_in_for = native.torch_module().stand_in_for
    return [stand_in_for(torch.empty_like(result, device="meta")) for result in results]


def _gradients(
    results: Sequence[torch.Tensor],
    given: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor],
    *,
    allow_unused: bool = True,
    retain_graph: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    wanted = [tensor for tensor in given if tensor.requires_grad]
    return torch.autograd.grad(
        results, wanted, tangents, allow_unused=allow_unused, retain_graph=retain_graph
    )


class _Backward:
    """The captured backward of a call."""

    def __init__(
        self,
        results: Sequence[torch.Tensor],
        given: Sequence[torch.Tensor],
        made: Sequence[torch.Tensor],
        allow_unused: bool,
    ) -> None:
        self._tangents = _tangents(results)
        found, self._call = _captured(
            lambda: _gradients(results, given, self._tangents, allow_unused=allow_unused),
            lambda gradients: (
                [*given, *made, *self._tangents],
                [gradient for gradient in gradients if gradient is not None],
                False,
            ),
        )
        self._count = len(given) + len(made)
        self.needs = [i for i, used in enumerate(self._call.uses[: self._count]) if used]
        # By tensor that the forward is given: whether the backward makes a gradient of it.
        gradients = iter(found)
        self._has = [tensor.requires_grad and next(gradients) is not None for tensor in given]
        self._nothing = torch.empty(0, device="hpu")

    def __call__(
        self, kept: dict[int, torch.Tensor], tangents: Sequence[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        given = [kept.get(i, self._nothing) for i in range(self._count)]
        for like, tangent in zip(self._tangents, tangents, strict=True):
            if tangent.stride() != like.stride() or tangent.dtype != like.dtype:
                tangent = torch.empty_strided(
                    like.shape, like.stride(), dtype=like.dtype, device="hpu"
                ).copy_(tangent)
            given.append(tangent)
        made = self._call.run(given)
        if made is None:
            raise RuntimeError("a captured backward got tensors that its forward did not keep")
        # Autograd may take a gradient that nobody else holds for its own.
        gradients = (
            gradient if fresh else gradient.clone()
            for gradient, fresh in zip(made[0], self._call.fresh, strict=True)
        )
        return [next(gradients) if has else None for has in self._has]


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, captured: CapturedCall, *given: torch.Tensor) -> Any:
        results, made = captured.run(given)
        tensors = [*given, *made]
        places = captured.needs(len(tensors))
        ctx.captured = captured
        ctx.places = [i for i in places if i not in captured.written]
        # The backward reads these as they are then: statistics of a batch norm, for one.
        ctx.written = {i: tensors[i] for i in places if i in captured.written}
        ctx.save_for_backward(*(tensors[i] for i in ctx.places))
        ctx.mark_non_differentiable(*captured.constants(results))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a captured call has no second derivative: call the module without a graph, "
                "with bypass_hpu_graphs=True"
            )
        kept = {**ctx.written, **dict(zip(ctx.places, ctx.saved_tensors, strict=True))}
        return None, *ctx.captured.run_backward(kept, tangents)
