"""Captures one ATen call as a graph of its own and gets its program, by the same capture and the
same fallback chain as a graph of torch.compile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from .. import native
from ..dynamo.capture.aliases import alias_forms
from ..dynamo.capture.argument_checks import check_arguments, type_name
from ..dynamo.capture.call_recording import record_call
from ..dynamo.capture.functional import record_functional
from ..dynamo.capture.snippet import GraphWriter, Snippet
from ..dynamo.capture.wire import CaptureError, NeedsFunctionalization, check_plain, meta_of
from ..dynamo.patches import fake_ops
from ..dynamo.programs.binding import warn_once
from ..dynamo.programs.service import CompileJob, FrontEndKey, Loaded, NoProgram, service
from ..dynamo.records import operators
from ..dynamo.records.records import GraphRecord
from ..dynamo.records.users_line import users_line
from ..dynamo.settings.options import key_options
from ..dynamo.settings.resolve import resolve
from ..torch_compat import features
from ..torch_compat.fakes import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    errors_without_log,
)
from ..torch_compat.ops import OpOverload, OpOverloadPacket, takes_numbers
from ..torch_compat.trees import tree_leaves, tree_map_only
from .answer import SINGLE, Answer, Made, Resize
from .stored import key_of_call, output_mask, plain_results, resizes_to, stored_call

_DEVICE = "hpu"
# Overloads that take a number where others take a tensor: as a later operand, and as the first one.
_OF_NUMBERS = {
    "Tensor": (("Scalar", "Tensor_Scalar"), ("Scalar_Tensor",)),
    "out": (("Scalar_out",), ()),
    "Tensor_out": (("Scalar_out", "Tensor_Scalar_out"), ("Scalar_Tensor_out",)),
}


class _Captured(NamedTuple):
    graph: bytes
    counts: Sequence[int]
    made: Sequence[Made]
    resizes: Sequence[Resize]


def _know_fakes() -> None:
    fake_ops.register()


features.enable(features.FAKE_RESULTS, _know_fakes)


def compile_call(
    name: str,
    overload: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    signature: bytes = b"",
) -> Answer:
    """The program of a call of operator `name` ("aten::add"). Raises what the operator's shape
    function raises for wrong arguments.

    signature: the words of CallSignature (backend/torch/record/call_signature.h), by which the
    store may have the program already; empty if the caller only wants to know whether there is one.
    """
    namespace, _, short = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), short)
    started = time.perf_counter()
    record = GraphRecord(f"eager {short}")
    try:
        op = overload_of(packet, overload or "default", args, kwargs)
        tensors = tensors_among(args, kwargs)
        plain = plain_results(op, args, kwargs)
        front_end = key_of_call(op, name, overload, signature, record)
        outs = [kwargs[given.name] for given in op._schema.arguments if given.is_out]
        loaded = None
        if front_end is not None:
            outputs = plain[1].count(Made("output"))
            loaded = stored_call(front_end, tensors, outs, outputs, record)
        if loaded is not None:
            captured = _Captured(b"", *plain, resizes_to(loaded, tensors))
        else:
            with torch.no_grad():
                captured = _try_capture(op, args, kwargs)
            resized = [tensors[resize.tensor] for resize in captured.resizes]
            only_outs = all(any(tensor is out for out in outs) for tensor in resized)
            if (captured.counts, captured.made) != plain or not only_outs:
                front_end = None
            loaded = compile_graph(captured.graph, record, front_end)
        program = loaded.program
    except CaptureError as error:
        return Answer(None, str(error))
    except NoProgram as error:
        if not error.lasting:
            warn_once(f"eager operators get no programs: {error}")
        return Answer(None, str(error), error.lasting)
    if program.eager_count:
        return Answer(None, _why_eager(program.text()))
    operators.note_program(
        short if namespace == "aten" else name, users_line(), (time.perf_counter() - started) * 1e3
    )
    return Answer(program, "", True, captured.counts, captured.made, captured.resizes)


def overload_of(
    packet: OpOverloadPacket, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> OpOverload:
    """The overload, or the one that takes numbers where the call gives a number for a tensor."""
    op: OpOverload = getattr(packet, name)
    if takes_numbers(op):
        return op
    for argument, value in zip(op._schema.arguments, args, strict=False):
        if isinstance(value, (int, float)) and str(argument.type) == "Tensor":
            later, first = _OF_NUMBERS.get(name, ((), ()))
            for scalar in first if value is args[0] else later:
                if scalar in packet.overloads():
                    of_numbers: OpOverload = getattr(packet, scalar)
                    return of_numbers
            raise CaptureError(f"it takes a number for tensor {argument.name}")
    return op


def _try_capture(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Captured:
    """Raises CaptureError if the call cannot be captured, and what the operator's shape function
    raises if the arguments are wrong."""
    try:
        with errors_without_log():
            return _capture(op, args, kwargs)
    except CaptureError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException):
        raise CaptureError("its result depends on elements of its arguments") from None
    except Exception as error:
        with suppress(NotImplementedError):
            run_on_fakes(FakeTensorMode(allow_non_fake_inputs=True), op, args, kwargs)
        raise CaptureError(str(error).partition("\n")[0]) from error


def run_on_fakes(
    mode: FakeTensorMode, op: OpOverload, args: Any, kwargs: Any
) -> tuple[list[torch.Tensor], Any]:
    """The tensors of the call after it, and its result. Raises what the operator raises for wrong
    arguments, and CaptureError if its shape function has a fault."""
    tensors = tensors_among(args, kwargs)
    fakes = [_fake(mode, tensor) for tensor in tensors]
    fake_args, fake_kwargs = _replace(tensors, fakes, args, kwargs)
    with errors_without_log(), mode:
        check_arguments(op, fake_args, fake_kwargs)
        try:
            result = op(*fake_args, **fake_kwargs)
        except TypeError as error:
            # Arguments of wrong types are refused before a kernel is called.
            raise CaptureError(f"its shape function fails: {error}") from error
        except AssertionError as error:  # with which some shape functions check their arguments
            raise RuntimeError(str(error)) from error
        _check_cast(op, fake_args, fake_kwargs)
    return fakes, result


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor that does not refer to the real one: FakeTensorMode.from_tensor would keep that
    alive until the next garbage collection."""
    with mode:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )


def tensors_among(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors among the arguments, each once, in their order."""
    leaves = tree_leaves((args, kwargs))
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())


def _capture(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Captured:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    tensors = tensors_among(args, kwargs)
    for i, tensor in enumerate(tensors):
        check_plain(tensor, f"argument {i}")
    fakes = [_fake(mode, tensor) for tensor in tensors]
    resizes: list[Resize] = []
    if op._schema.is_mutable:
        # This also raises what the operator raises where it cannot write: functionalization, which
        # captures it, casts whatever it finds.
        resizes = resizes_between(tensors, run_on_fakes(mode, op, args, kwargs)[0])
    for i, sizes, strides in resizes:
        with mode:
            fakes[i] = torch.empty_strided(
                sizes, strides, dtype=tensors[i].dtype, device=tensors[i].device
            )
    fake_args, fake_kwargs = _replace(tensors, fakes, args, kwargs)
    with mode:
        check_arguments(op, fake_args, fake_kwargs)
    builder = native.torch_module().GraphBuilder(str(op))
    inputs = [
        builder.add_tensor_input(*meta_of(fake), fake.device.type == "cpu", f"argument_{i}", False)
        for i, fake in enumerate(fakes)
    ]
    try:
        if op._schema.is_mutable or op == torch.ops.aten.native_batch_norm.default:
            # Functionalization also gives batch norms in training the form that recipes have.
            raise NeedsFunctionalization(str(op))
        snippet, result = record_call(mode, fakes, "call_function", op, fake_args, fake_kwargs)
        forms = alias_forms(fakes, tree_leaves(result), autograd=False)
    except NeedsFunctionalization:
        snippet, result, forms = _record_writes(mode, fakes, op, fake_args, fake_kwargs)
    result = _masked(op, args, kwargs, result)
    values = GraphWriter(builder, _DEVICE).write(snippet, inputs, "")
    made = [_made(leaf) for leaf in tree_leaves(result)]
    outputs = [
        (builder.Value(values[slot.index]), form)
        for slot, form, leaf in zip(tree_leaves(snippet.output), forms, made, strict=True)
        if leaf.kind == "output"
    ]
    builder.set_outputs([value for value, _ in outputs], [form for _, form in outputs])
    return _Captured(builder.serialize(), call_counts(op, result), made, resizes)


def _masked(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """The results that `output_mask` asks for. PyTorch's fake batch norm has the others, too."""
    mask = output_mask(op, args, kwargs)
    if mask and isinstance(result, tuple):
        return tuple(x if wanted else None for x, wanted in zip(result, mask, strict=True))
    return result


def _replace(
    tensors: Sequence[torch.Tensor], others: Sequence[torch.Tensor], args: Any, kwargs: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with other tensors in the places of `tensors`."""
    other_of = {id(tensor): other for tensor, other in zip(tensors, others, strict=True)}
    positional, named = tree_map_only(
        torch.Tensor, lambda t: other_of[id(t)], (list(args), dict(kwargs))
    )
    return positional, named


def resizes_between(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> list[Resize]:
    """Returns the forms that a call gives `out` tensors that have another size than its results.
    `before` and `after` are the tensors of the call."""
    return [
        Resize(i, tuple(fake.shape), fake.stride())
        for i, (fake, tensor) in enumerate(zip(after, before, strict=True))
        if fake.shape != tensor.shape
    ]


def _check_cast(op: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raises PyTorch's error for an operator in place whose result the tensor cannot hold. Fake
    tensors do not check it."""
    namespace, _, name = op._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    functional = getattr(packet, op._overloadname, None)
    # pow.Scalar is no form of pow_.Scalar.
    if not name.endswith("_") or functional is None or _types(functional) != _types(op):
        return
    result = functional(*args, **kwargs)
    if isinstance(result, torch.Tensor) and not torch.can_cast(result.dtype, args[0].dtype):
        raise RuntimeError(
            f"result type {type_name(result.dtype)} can't be cast to the desired output type "
            f"{type_name(args[0].dtype)}"
        )


def _types(op: OpOverload) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in op._schema.arguments]


def _record_writes(
    mode: FakeTensorMode,
    fakes: Sequence[torch.Tensor],
    op: OpOverload,
    args: list[Any],
    kwargs: dict[str, Any],
) -> tuple[Snippet, Any, list[str]]:
    def run(wrapped: list[torch.Tensor]) -> Any:
        arguments, keywords = _replace(fakes, wrapped, args, kwargs)
        return op(*arguments, **keywords)

    recording = record_functional(mode, fakes, run)
    for i in recording.mutated:
        if fakes[i].device.type != _DEVICE:
            raise CaptureError(f"it writes to a tensor on {fakes[i].device.type}")
    return recording.snippet, recording.result, recording.forms


def _made(leaf: Any) -> Made:
    if leaf is None:
        return Made("undefined")
    if not isinstance(leaf, torch.Tensor):
        raise CaptureError(f"it returns a {type(leaf).__name__}")
    if leaf.device.type != _DEVICE:
        raise CaptureError(f"it returns a tensor on {leaf.device.type}")
    if leaf.numel() == 0:
        return Made("empty", leaf.dtype, tuple(leaf.shape))
    return Made("output")


def call_counts(op: OpOverload, result: Any) -> tuple[int, ...]:
    """By result of the operator: the length of a list, or SINGLE for a tensor."""
    returns = len(op._schema.returns)
    results = result if returns > 1 else (result,) * returns
    return tuple(len(item) if isinstance(item, (list, tuple)) else SINGLE for item in results)


def _why_eager(text: str) -> str:
    """The reasons in a program's listing: "eager %0 = aten::lgamma(%1)  # no rule ..."."""
    lines = [line.strip() for line in text.splitlines()]
    steps = [line for line in lines if line.startswith("eager ")]
    return "; ".join(step.partition("#")[2].strip() or step for step in steps)


def compile_graph(
    graph: bytes, record: GraphRecord, front_end: FrontEndKey | None = None
) -> Loaded:
    """The program of a captured graph. The caller keeps it. Raises NoProgram."""
    settings = resolve(None)
    job = CompileJob(
        graph,
        key_options(settings),
        front_end,
        timeout_s=float(settings["compile_timeout_s"]),
        keep=False,
        frozen=bool(settings["frozen"]),
    )
    return service.compile(job, record, None)
