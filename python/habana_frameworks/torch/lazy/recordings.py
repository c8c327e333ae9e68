"""Captures a recording of ATen calls as one graph and gets its program, by the same capture and the
same fallback chain as a graph of torch.compile."""

from __future__ import annotations

import bisect
import itertools
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch

from .. import native
from ..dynamo.capture.functional import FunctionalRecording, record_functional
from ..dynamo.capture.recorder import unwrap_functional
from ..dynamo.capture.snippet import GraphWriter
from ..dynamo.capture.wire import CaptureError, meta_of
from ..dynamo.programs.binding import describe_program, log_record, note_stored, warn_once
from ..dynamo.programs.explanation import FrozenMiss, miss_text
from ..dynamo.programs.front_end_keys import stored_program
from ..dynamo.programs.service import FrontEndKey, Loaded, NoProgram
from ..dynamo.records import records
from ..dynamo.records.ranges import host_range
from ..dynamo.records.records import GraphRecord
from ..dynamo.records.users_line import users_line
from ..dynamo.settings.resolve import resolve
from ..eager.calls import compile_graph, overload_of, tensors_among
from ..internal.asked_errors import AskedForError
from ..torch_compat.fakes import FakeTensorMode
from ..torch_compat.functionalization import DisablePythonDispatcher
from ..torch_compat.trees import tree_leaves, tree_map_only
from .keys import recording_key
from .numbers import VaryingNumbers
from .views import (
    Form,
    bytes_of,
    form_of,
    is_dense,
    pieces_of,
    row_major,
    view_of,
    with_memory_of,
)

_DEVICE = "hpu"
_BATCH_NORM = torch.ops.aten.native_batch_norm
_counter = itertools.count()
# By call: operator, overload, arguments by position and by name, and by tensor among the results
# the tensor that the call makes, or None; and how many floating-point numbers of the arguments the
# recording counts.
RecordedCall = tuple[str, str, tuple[Any, ...], dict[str, Any], Sequence[torch.Tensor | None], int]
# A storage of hpu: its name (UntypedStorage._cdata) and its bytes.
Value = tuple[int, int]
# Such a storage, the byte where its first operand begins, whether it is a weight, and whether it is
# one that is trained; or a tensor on the CPU in the place of the name.
Given = tuple[Any, int, int, bool, bool]


class Input(NamedTuple):
    """An input of the program: the form of a value."""

    place: int  # among the inputs of the recording, and then among the filled values
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Answer(NamedTuple):
    """The program for a recording (backend/torch/record/recorded_program.h), or the reason why
    there is none."""

    program: Any  # _torch.Program, or None
    refusal: str = ""  # why there is no program
    lasting: bool = True  # whether there will be none later either
    inputs: Sequence[Input] = ()
    varying: Sequence[int] = ()  # the numbers that are an input


def compile_recording(
    calls: Sequence[RecordedCall],
    inputs: Sequence[Given],
    filled: Sequence[Value],
    varying: Sequence[int],
    in_place: bool,
    structure: bytes,
    numbers: Sequence[float],
) -> Answer:
    """The program of recorded calls.

    filled: the values that the program computes, as results, or in their own memory if `in_place`.
    varying: the numbers of the calls, counted in the order of the calls and their arguments, that
    should be inputs of the program and not part of it.
    structure: what the captured graph depends on beside these arguments and the numbers, in bytes
    that are the same in every process (backend/torch/record/recording_structure.h).
    numbers: all numbers of the calls.

    Raises FrozenMiss with option frozen, and AskedForError with option require_server.
    """
    record = GraphRecord(f"recording_{next(_counter)}", users_line())
    record.nodes = len(calls)
    try:
        # The report looks for the first run after this range.
        with host_range(f"hpu::prepare {record.name}"):
            capture = _Capture(calls, inputs, filled, varying, in_place)
            front_end = recording_key(
                calls,
                structure,
                capture.forms_text(),
                numbers,
                capture.numbers.taken,
                in_place,
                record,
            )
            loaded = capture.stored(front_end, record) if front_end is not None else None
            if loaded is None:
                started = time.perf_counter()
                with torch.no_grad():
                    graph = capture.graph()
                record.capture_ms = (time.perf_counter() - started) * 1e3
                loaded = compile_graph(graph, record, front_end)
    except CaptureError as error:
        return _refused(record, str(error))
    except NoProgram as error:
        settings = resolve(None)
        if error.code == "NOT_FOUND" and settings["frozen"]:
            raise FrozenMiss(miss_text(record, record.source, str(error))) from error
        if settings["require_server"] and not error.lasting:
            raise AskedForError(f"HPU_REQUIRE_SERVER is set, and {error}") from error
        return _refused(record, str(error), error.lasting)
    except Exception as error:
        return _refused(record, f"{type(error).__name__}: {error}".partition("\n")[0])
    describe_program(record, loaded, use_eager_fallback=True, one_of_many=True)
    note_stored(record)
    _report(record)
    return Answer(loaded.program, "", True, capture.program_inputs, capture.numbers.taken)


def _refused(record: GraphRecord, reason: str, lasting: bool = True) -> Answer:
    record.reason = reason
    warn_once(f"recorded operators run one by one, because there is no program of them: {reason}")
    _report(record)
    return Answer(None, reason, lasting)


def _report(record: GraphRecord) -> None:
    records.add(record)
    log_record(record)


def _name(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class _Capture:
    """One recording on its way to a graph."""

    def __init__(
        self,
        calls: Sequence[RecordedCall],
        inputs: Sequence[Given],
        filled: Sequence[Value],
        varying: Sequence[int],
        in_place: bool,
    ) -> None:
        self._calls = calls
        self._filled = filled
        self._in_place = in_place
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._forms = _forms_in(calls)
        self.numbers = VaryingNumbers(calls, varying)
        self.program_inputs: list[Input] = []
        # By name of a storage and number of its piece: the present base of the views there. It is
        # dense, unless all uses of the piece are the same view, and must have these strides then.
        self._bases: dict[tuple[int, int], torch.Tensor] = {}
        self._strides: dict[tuple[int, int], tuple[int, ...]] = {}
        # By name of an input: its pieces. Calls that use some of a large storage (parts of a flat
        # buffer) then cost no copy of the rest. Other storages have one piece.
        self._pieces: dict[int, list[Form]] = {}
        self._devices: list[str] = []  # by input of the program, as the following lists
        self._weights: list[bool] = []
        self._trained: list[bool] = []
        self._places: list[tuple[int, int]] = []  # its place among the bases
        self._first_bytes = [first for _, _, first, _, _ in inputs]
        for place, (value, size, _, weight, trained) in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                self._add_input(place, id(value), [form_of(value)], "cpu", weight, trained)
            else:
                pieces = pieces_of(self._forms.get(value, [])) or [self._base_form(value, size)]
                self._pieces[value] = pieces
                self._add_input(place, value, pieces, _DEVICE, weight, trained)
        if in_place:
            for place, (name, size) in enumerate(filled, start=len(inputs)):
                self._add_input(place, name, [self._base_form(name, size)], _DEVICE, False, False)

    def _add_input(
        self,
        place: int,
        name: int,
        pieces: Sequence[Form],
        device: str,
        weight: bool,
        trained: bool,
    ) -> None:
        for number, form in enumerate(pieces):
            if 0 in form.sizes:
                continue
            self._devices.append(device)
            self._weights.append(weight)
            self._trained.append(trained)
            self._places.append((name, number))
            self.program_inputs.append(Input(place, *form))

    def _base_form(self, name: int, size: int) -> Form:
        """The form of the tensor that stands for a storage of `size` bytes: row-major, unless all
        calls use the same view of it."""
        forms = self._forms.get(name, [])
        for form in forms:
            filled = torch.Size(form.sizes).numel() * form.dtype.itemsize
            if form.offset == 0 and is_dense(form) and filled == size:
                return row_major(form)
        if len(forms) == 1:
            return forms[0]
        return _row(forms, size)

    def forms_text(self) -> str:
        """The forms of the program's inputs, and where they begin: in bytes after the first operand
        of their storage, because the structure has the operands so."""
        first_bytes = [*self._first_bytes, *(0 for _ in self._filled)]
        return "\n".join(
            f"{place} {dtype} {sizes} {strides} {offset * dtype.itemsize - first_bytes[place]}"
            for place, dtype, sizes, strides, offset in self.program_inputs
        )

    def stored(self, front_end: FrontEndKey, record: GraphRecord) -> Loaded | None:
        """The program that the store has for this recording."""
        loaded = stored_program(front_end, record.name, record, keep=False)
        if loaded is None:
            return None
        forms = [
            (form.dtype, form.sizes, form.strides, device == "cpu")
            for form, device in zip(self.program_inputs, self._devices, strict=True)
        ]
        if self.numbers.taken:
            forms.append((torch.float32, (len(self.numbers.taken),), (1,), False))
        if loaded.program.takes(forms, 0 if self._in_place else len(self._filled)):
            return loaded
        record.unusable = "the stored program takes other tensors"
        return None

    def graph(self) -> bytes:
        with self._mode:
            fakes = [
                torch.empty_strided(i.sizes, i.strides, dtype=i.dtype, device=device)
                for i, device in zip(self.program_inputs, self._devices, strict=True)
            ]
        fakes += self.numbers.input(self._mode)
        recording = record_functional(self._mode, fakes, self._run)
        return self._write(recording, fakes)

    def _run(self, wrapped: list[torch.Tensor]) -> list[torch.Tensor]:
        given = dict(zip(self._places, wrapped, strict=False))
        filled = {(name, 0) for name, _ in self._filled}  # their calls fill them from the first on
        read = {place: base for place, base in given.items() if place not in filled}
        for place, base in read.items():
            self._put(place, base)
        self.numbers.bind(wrapped[len(self.program_inputs) :])
        for call in self._calls:
            self._replay(*call)
        for place, base in read.items():
            if self._bases[place] is not base:
                base.copy_(self._bases[place])
        if not self._in_place:
            return [self._base(name, size) for name, size in self._filled]
        for name, size in self._filled:
            value = self._base(name, size)
            target = given[name, 0]
            target.copy_(view_of(value, form_of(target)))
        return []

    def _replay(
        self,
        name: str,
        overload: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[torch.Tensor | None],
        numbers: int,
    ) -> None:
        namespace, _, short = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), short)
        views = {id(tensor): self._view(tensor) for tensor in tensors_among(args, kwargs)}
        op = overload_of(packet, overload or "default", args, kwargs)
        args, kwargs = tree_map_only(torch.Tensor, lambda t: views[id(t)], (args, kwargs))
        # Only batch norm needs the Python kernel that PyTorch has for some operators: it shows that
        # statistics are written. The others would be taken apart, which is the compiler's work.
        as_recorded = nullcontext() if packet is _BATCH_NORM else DisablePythonDispatcher()
        with as_recorded:
            result = self.numbers.call(packet, op, args, kwargs, numbers)
        for leaf, made in zip(tree_leaves(result), results, strict=True):
            if made is None or made.numel() == 0:
                continue
            if leaf.dtype != made.dtype or leaf.shape != made.shape:
                raise CaptureError(f"{name} gives another result in a graph")
            self._put((_name(made), 0), with_memory_of(leaf, made.shape, made.stride()))

    def _put(self, place: tuple[int, int], base: torch.Tensor) -> None:
        self._bases[place] = base
        if is_dense(form_of(base)):
            self._strides[place] = unwrap_functional(base).stride()

    def _get(self, place: tuple[int, int]) -> torch.Tensor:
        """The base. A write through a permuted view may have given it the strides of what was
        written; it is copied then."""
        base = self._bases[place]
        if place in self._strides:
            base = with_memory_of(base, base.shape, self._strides[place])
            self._bases[place] = base
        return base

    def _view(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu":
            return self._bases[id(tensor), 0]
        form = form_of(tensor)
        if 0 in form.sizes:
            # Recipes have a rule for it, and its strides have no meaning.
            return torch.full(form.sizes, 0, dtype=form.dtype, device=tensor.device)
        name = _name(tensor)
        pieces = self._pieces.get(name)
        if pieces is None:
            return view_of(self._base(name, tensor.untyped_storage().nbytes()), form)
        # The pieces are in the order of memory, and each form lies in one of them.
        number = bisect.bisect_right(pieces, bytes_of(form)[0], key=lambda p: bytes_of(p)[0]) - 1
        base = self._get((name, number))
        if form == pieces[number]:
            return base
        moved = form.offset - bytes_of(pieces[number])[0] // form.dtype.itemsize
        return view_of(base, form._replace(offset=moved))

    def _base(self, name: int, size: int) -> torch.Tensor:
        if (name, 0) not in self._bases:
            # Memory that no call has filled yet.
            form = self._base_form(name, size)
            if not is_dense(form) or form.offset:
                form = _row([form], size)
            empty = torch.empty(form.sizes, dtype=form.dtype, device=torch.device(_DEVICE, 0))
            self._put((name, 0), empty)
        return self._get((name, 0))

    def _write(self, recording: FunctionalRecording, fakes: Sequence[torch.Tensor]) -> bytes:
        for i in recording.mutated:
            if fakes[i].device.type != _DEVICE:
                raise CaptureError("a call writes to a tensor on the CPU")
        builder = native.torch_module().GraphBuilder("recording")
        written = set(recording.mutated)
        weights = {i for i, weight in enumerate(self._weights) if weight} - written
        trained = {i for i, trained in enumerate(self._trained) if trained} | written
        inputs = [
            builder.add_tensor_input(
                *meta_of(fake), fake.device.type == "cpu", f"value_{i}", i in weights, i in trained
            )
            for i, fake in enumerate(fakes)
        ]
        values = GraphWriter(builder, _DEVICE).write(recording.snippet, inputs, "")
        slots = tree_leaves(recording.snippet.output)
        builder.set_outputs(
            [builder.Value(values[slot.index]) for slot in slots],
            list(recording.forms),
        )
        return bytes(builder.serialize())


def _row(forms: Sequence[Form], size: int) -> Form:
    """A row that fills `size` bytes with elements of a type of these forms, if one divides them."""
    fitting = [form.dtype for form in forms if size % form.dtype.itemsize == 0]
    dtype = fitting[0] if fitting else torch.uint8
    return Form(dtype, (size // dtype.itemsize,), (1,), 0)


def _forms_in(calls: Sequence[RecordedCall]) -> dict[int, list[Form]]:
    """By name of a storage: the forms in which calls use it, each once, in their order."""
    forms: dict[int, dict[Form, None]] = {}
    for _, _, args, kwargs, results, _ in calls:
        made = [tensor for tensor in results if tensor is not None]
        for tensor in (*tensors_among(args, kwargs), *made):
            if tensor.device.type == _DEVICE:
                forms.setdefault(_name(tensor), {})[form_of(tensor)] = None
    return {name: list(found) for name, found in forms.items()}
