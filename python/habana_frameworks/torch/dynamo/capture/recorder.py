"""Records the ATen calls that a piece of Python makes on fake tensors as a Snippet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ...internal.registrations import OWN_OPS
from ...torch_compat.fakes import FakeTensor
from ...torch_compat.functionalization import (
    from_functional_tensor,
    is_functional_tensor,
    sync,
)
from ...torch_compat.modes import TorchDispatchMode, disable_current_modes
from ...torch_compat.ops import OpOverload, assert_async
from ...torch_compat.trees import tree_leaves, tree_map_only
from .decompositions.aten_rules import ATEN_RULES
from .decompositions.find_decomposition import find_decomposition
from .recorded_ops import (
    ABOUT_METADATA,
    HELD_CHECKS,
    IDENTITY,
    check_kernel,
    check_op,
    draws_random,
    drop_constants,
    writes_undeclared,
)
from .snippet import Call, Slot, Snippet
from .wire import CaptureError, Meta, NeedsFunctionalization, check_plain, meta_of

_log = logging.getLogger("habana_frameworks.torch.dynamo")

_NO_RESULT: Meta = (torch.float32, (0,), (1,), 0)


@dataclass(frozen=True)
class Checkpoint:
    """How far a SnippetRecorder had come: the lengths of its lists, and its slots by tensor
    identity."""

    calls: int
    constants: int
    slot_count: int
    slots: dict[int, int]
    decomposed: int


class SnippetRecorder:
    """Builds one Snippet; knows tensors by identity."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        self.snippet = Snippet(slot_count=len(inputs), inputs=list(range(len(inputs))))
        self._input_count = len(inputs)
        self._slots = {id(tensor): slot for slot, tensor in enumerate(inputs)}
        self._alive: list[torch.Tensor] = list(inputs)

    def add_input(self, tensor: torch.Tensor) -> None:
        """Adds an input that becomes known only after some calls were recorded."""
        self.snippet.inputs.append(self._new_slot(tensor))

    def _new_slot(self, tensor: torch.Tensor) -> int:
        slot = self.snippet.slot_count
        self.snippet.slot_count += 1
        self._slots[id(tensor)] = slot
        self._alive.append(tensor)
        return slot

    def slot_of(self, tensor: torch.Tensor) -> Slot:
        """The slot of a known tensor; a real tensor becomes a constant."""
        slot = self._slots.get(id(tensor))
        if slot is None:
            if isinstance(tensor, FakeTensor):
                if tensor.constant is None:
                    raise CaptureError("a tensor from outside the graph is used in it")
                data = tensor.constant
            else:
                data = tensor
            check_plain(data, "a constant")
            slot = self._new_slot(tensor)
            with disable_current_modes():
                self.snippet.constants.append((slot, data.detach().clone()))
        return Slot(slot)

    def template(self, value: Any) -> Any:
        """The arguments with slots in place of tensors."""
        if isinstance(value, torch.Tensor):
            return self.slot_of(value)
        if isinstance(value, (list, tuple)):
            return [self.template(item) for item in value]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise CaptureError("a symbolic number reached an operation")
        if isinstance(value, torch.Generator):
            raise CaptureError("the graph draws random numbers from a generator of its own")
        return value

    def is_fresh(self, tensor: torch.Tensor) -> bool:
        """True for a tensor made inside the snippet, which nothing else can hold yet."""
        return self._slots.get(id(tensor), 0) >= self._input_count

    def rename(self, tensor: torch.Tensor, known: torch.Tensor) -> None:
        """Notes that `tensor` is another object for the value of `known`."""
        self._slots[id(tensor)] = self.slot_of(known).index
        self._alive.append(tensor)

    def record(
        self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Appends one call with its results' metadata."""
        arguments = tuple(self.template(a) for a in args)
        keywords = {k: self.template(v) for k, v in kwargs.items()}
        given = {
            storage_of(leaf): self.slot_of(leaf).index
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        }
        results: list[Meta] = []
        memory: list[int | None] = []
        slots: list[int] = []
        device = ""
        if not op._schema.returns and not op._schema.is_mutable:
            result = ()  # a check: it is called for its effect, and the compiler must keep it
        for item in result if isinstance(result, (list, tuple)) else (result,):
            if item is None:
                # The call's mask leaves this gradient out, so nobody reads the value.
                results.append(_NO_RESULT)
                memory.append(None)
                slots.append(self.snippet.slot_count)
                self.snippet.slot_count += 1
                continue
            if not isinstance(item, torch.Tensor):
                raise CaptureError(f"{op} returns {type(item).__name__}, not only tensors")
            check_plain(item, f"the result of {op}")
            device = device or item.device.type
            results.append(meta_of(item))
            memory.append(given.get(storage_of(item)))
            slots.append(self._new_slot(item))
        random = draws_random(op, args, kwargs)
        self.snippet.calls.append(
            Call(str(op), arguments, keywords, results, memory, slots, random, device)
        )

    def record_copy(self, op: OpOverload, target: torch.Tensor, source: torch.Tensor) -> None:
        """Appends a copy onto an input that nothing reads after it, without running the copy: an
        optimizer's graph ends with one for each of its tensors."""
        place, new = self.slot_of(target), self.snippet.slot_count
        self.snippet.slot_count += 1
        memory: list[int | None] = [place.index]
        arguments = (place, self.slot_of(source))
        call = Call(str(op), arguments, {}, [meta_of(target)], memory, [new], False, "")
        self.snippet.calls.append(call)

    def checkpoint(self) -> Checkpoint:
        """The present state, for `calls_since` and `roll_back`."""
        return Checkpoint(
            len(self.snippet.calls),
            len(self.snippet.constants),
            self.snippet.slot_count,
            # A call that returns its argument gives it a new slot.
            dict(self._slots),
            len(self.snippet.decomposed),
        )

    def calls_since(self, checkpoint: Checkpoint) -> list[Call]:
        return self.snippet.calls[checkpoint.calls :]

    def roll_back(self, checkpoint: Checkpoint) -> None:
        """Forgets what was recorded since the checkpoint."""
        del self.snippet.calls[checkpoint.calls :]
        del self.snippet.constants[checkpoint.constants :]
        self.snippet.slot_count = checkpoint.slot_count
        self._slots = checkpoint.slots
        del self.snippet.decomposed[checkpoint.decomposed :]

    def finish(self, output: Any) -> Snippet:
        self.snippet.output = tree_map_only(torch.Tensor, self.slot_of, output)
        return self.snippet


def storage_of(tensor: torch.Tensor) -> int:
    """The same number for tensors that share memory."""
    return int(tensor.untyped_storage()._cdata)


class RecordingMode(TorchDispatchMode):
    """Puts every ATen call on fake tensors into a SnippetRecorder.

    allow_copy: lets the final `copy_` onto graph inputs through (functionalized tracing).
    """

    def __init__(self, recorder: SnippetRecorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.allow_copy = False
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Lets calls through unrecorded inside the block."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            raise CaptureError(f"higher-order operation {func}")
        name = str(func)
        check_kernel(func)
        if self._paused or func.namespace == "prim" or name in ABOUT_METADATA:
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            if not (self.allow_copy and name == "aten.copy_.default"):
                raise NeedsFunctionalization(name)
            self.recorder.record_copy(func, *args, **kwargs)
            return args[0]
        if writes_undeclared(func, args, kwargs):
            raise NeedsFunctionalization(name)
        check_op(func, args, kwargs)
        if name in HELD_CHECKS:
            return None
        if name == "aten._functional_assert_async.msg":
            # Its token orders the checks; a program makes them in the order of the graph.
            self.recorder.record(assert_async, args[:2], {}, None)
            return args[2]
        if name == "aten.native_dropout.default" and not draws_random(func, args, kwargs):
            # Fake tensors give the argument itself, where the op gives a copy of it.
            with self:
                return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        # PyTorch's decomposition of an op that draws draws other numbers than the op itself.
        foreign = func.namespace != "hpu" and draws_random(func, args, kwargs)
        decompose = None if foreign else find_decomposition(func)
        if decompose is not None:
            decomposed = self._decompose(decompose, func, args, kwargs)
            if decomposed is not None:
                return decomposed
        result = func(*args, **kwargs)
        if func.namespace not in OWN_OPS:
            drop_constants(result)
        if name == "aten._local_scalar_dense.default" and type(result) in (int, float, bool):
            return result  # the value of a constant, which PyTorch's fake tensors know
        if name in IDENTITY or (name == "aten.detach.default" and self.recorder.is_fresh(args[0])):
            self.recorder.rename(result, args[0])
        else:
            self.recorder.record(func, args, kwargs, result)
        return result

    def _decompose(
        self, decompose: Callable[..., Any], op: OpOverload, args: Any, kwargs: Any
    ) -> Any:
        """Records the calls of PyTorch's decomposition. None, and nothing recorded, where one of
        them has no rule either or the results would not be those of the op."""
        expected = op(*args, **kwargs)
        before = self.recorder.checkpoint()
        try:
            with self:
                result = _with_strides_of(decompose(*args, **kwargs), expected)
            known = all(map(_has_rule, self.recorder.calls_since(before)))
            if known and _same_metadata(result, expected, args):
                self.recorder.snippet.decomposed.append(str(op))
                return result
        except Exception as error:
            # A decomposition runs any Python; whatever stops it, the op itself can be recorded.
            _log.debug("decomposition of %s: %s", op, error)
        self.recorder.roll_back(before)
        return None


def _has_rule(call: Call) -> bool:
    """True for calls that the compile server puts into recipes, none of which hold f64."""
    return call.target in ATEN_RULES and all(m[0] != torch.float64 for m in call.results)


def _share_memory(x: torch.Tensor, y: torch.Tensor) -> bool:
    return storage_of(x) == storage_of(y)


def _same_metadata(result: Any, expected: Any, args: Any) -> bool:
    """True for results of the same types and strides; one that is an argument itself must be its
    view for the op too. None is a result that was not asked for."""
    given = {id(leaf) for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)}
    ours, theirs = tree_leaves(result), tree_leaves(expected)
    return len(ours) == len(theirs) and all(
        (x is None and y is None)
        or (
            isinstance(x, torch.Tensor)
            and isinstance(y, torch.Tensor)
            and (id(x) not in given or _share_memory(x, y))
            and x.device == y.device
            and meta_of(x) == meta_of(y)
        )
        for x, y in zip(ours, theirs, strict=True)
    )


def _with_strides_of(result: Any, expected: Any) -> Any:
    """The results of a decomposition with the order of dimensions that the op gives them."""
    if isinstance(result, (tuple, list)) and isinstance(expected, (tuple, list)):
        pairs = zip(result, expected, strict=True)
        return type(result)(_with_strides_of(ours, theirs) for ours, theirs in pairs)
    if not isinstance(result, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return result
    if result.shape != expected.shape or result.stride() == expected.stride():
        return result
    strides, sizes = expected.stride(), expected.shape
    order = sorted(range(expected.dim()), key=lambda d: (-strides[d], -sizes[d], d))
    inverse = [order.index(d) for d in range(expected.dim())]
    return result.permute(order).clone(memory_format=torch.contiguous_format).permute(inverse)


def unwrap_functional(tensor: torch.Tensor) -> torch.Tensor:
    """The present value behind a functional wrapper; other tensors as they are."""
    if not is_functional_tensor(tensor):
        return tensor
    sync(tensor)
    inner: torch.Tensor = from_functional_tensor(tensor)
    return inner
