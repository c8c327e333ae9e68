"""PyTorch's operator samples eagerly with recipes alone, in lazy mode, and compiled, compared with
the CPU.

`python operator_modes.py --update` runs all of them and rewrites operator_outcomes.json, which has
the operators whose samples are not simply right, and proto/op_calls.json, which has, by overload
and type, whether calls outside of graphs are recipes. The tests hold both to be exact."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from eager_case import place_on_cpu
from exact_reference import ExactReference, is_narrow
from helpers import fresh_process
from lazy_case import Counts, lazy_mode
from operator_samples import (
    closed,
    is_plain,
    name_of,
    operators,
    placed,
    samples_of,
    with_gradients,
)

from habana_frameworks.torch import native
from habana_frameworks.torch.eager import calls
from habana_frameworks.torch.torch_compat import minor_version

SAMPLES = 3
TYPES = ("float32", "bfloat16", "float16", "int64", "int32", "bool")
OUTCOMES = Path(__file__).parent / "operator_outcomes.json"
CALLS = Path(__file__).parents[2] / "proto" / "op_calls.json"
# The version whose samples CALLS was written from. Those of others reach more overloads, which must
# have recipes.
WRITTEN_WITH = "2.13"
# These results name any one of several equal elements. f32 samples have no equal ones.
NAMES_AN_ELEMENT = {"topk": 1, "kthvalue": 1, "sort": 1, "argsort": 0}
# The statistics that they save for their gradients are f32 for narrow types, as on other devices.
SAVES_F32 = {
    "native_layer_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
}
Function = Callable[..., list[torch.Tensor]]
Values = list[torch.Tensor | None]


class Refused(Exception):
    """The call needs the host."""


def run(mode: str, function: Function, tensors: list[torch.Tensor]) -> Values:
    """Results and gradients of the function on hpu. Raises Refused."""
    given = placed(tensors, "hpu")
    try:
        if mode == "compiled":
            fresh_process()
            return _both(torch.compile(function, backend="hpu_backend", dynamic=False), given)
        with place_on_cpu("none"):
            if mode == "eager":
                return _both(function, given)
            with lazy_mode():
                return [
                    result if result is None else result.cpu() for result in _both(function, given)
                ]
    except (NotImplementedError, RuntimeError) as error:
        if "has no hpu kernel" in str(error) or "to be on cpu" in str(error):
            raise Refused(str(error)) from error
        raise


def _both(function: Function, tensors: list[torch.Tensor]) -> Values:
    results, gradients = with_gradients(function, tensors)
    return [*results, *gradients]


def compare(
    name: str, function: Function, tensors: list[torch.Tensor], ours: Values, theirs: Values
) -> None:
    assert len(ours) == len(theirs)
    exact: ExactReference | None = None
    narrow = any(map(is_narrow, tensors)) or any(map(is_narrow, theirs))
    for n, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        if own is None or other is None:
            # A gradient that is zero everywhere may be absent.
            present = own if own is not None else other
            assert present is None or not present.any()
            continue
        if name in SAVES_F32 and is_narrow(other) and own.dtype == torch.float32:
            own = own.to(other.dtype)
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        if NAMES_AN_ELEMENT.get(name) == n and theirs[0].dtype != torch.float32:
            continue
        if not narrow:
            rtol, atol = (1e-3, 1e-4) if other.is_floating_point() else (0, 0)
            torch.testing.assert_close(own.cpu(), other, rtol=rtol, atol=atol, equal_nan=True)
        elif not torch.allclose(own.detach().cpu(), other.detach(), equal_nan=True):
            if exact is None:
                exact = ExactReference(lambda *given: _asking(function, tensors, given), *tensors)
            wrong = exact.excess(n, own, other)
            assert wrong is None, f"result {n}: {wrong}"


def _asking(function: Function, tensors: list[torch.Tensor], given: Any) -> Values:
    """Results and gradients for the same arguments in other types."""
    asked = [
        other.detach().requires_grad_(tensor.requires_grad)
        for other, tensor in zip(given, tensors, strict=True)
    ]
    return _both(function, asked)


def outcome_of(mode: str, op: Any, dtype: str, samples: int = SAMPLES) -> str:
    """The outcome of the operator's samples."""
    found = itertools.islice(samples_of(op, getattr(torch, dtype)), samples)
    return outcome_of_functions(mode, op.name, (closed(op, sample) for sample in found))


def outcome_of_functions(
    mode: str, name: str, functions: Iterable[tuple[Function, list[torch.Tensor]]]
) -> str:
    """ "right"; "refused", if a function needs the host; "no gradient", if only its gradient does;
    "one by one", if a recording has no program; or "none" where the CPU has no answer of plain
    tensors."""
    found = {"none"}
    counts = Counts()
    for function, tensors in functions:
        if all(map(is_plain, tensors)):
            found.add(_outcome_of_function(mode, name, function, tensors))
    if counts.runs_by_call > 0:
        found.add("one by one")
    return next(o for o in ("refused", "no gradient", "one by one", "right", "none") if o in found)


def _outcome_of_function(
    mode: str, name: str, function: Function, tensors: list[torch.Tensor]
) -> str:
    try:
        wanted = _both(function, placed(tensors, "cpu"))
    except Exception:
        return "none"
    if not all(result is None or is_plain(result) for result in wanted):
        return "none"
    try:
        compare(name, function, tensors, run(mode, function, tensors), wanted)
        return "right"
    except Refused:
        if not any(tensor.requires_grad for tensor in tensors):
            return "refused"
    without = _outcome_of_function(mode, name, function, [t.detach() for t in tensors])
    return "no gradient" if without == "right" else "refused"


def expected(mode: str, op: Any, dtype: str) -> tuple[str, ...]:
    """Returns what OUTCOMES says."""
    table = json.loads(OUTCOMES.read_text())[mode].get(dtype, {})
    listed = [outcome for outcome, names in table.items() if name_of(op) in names]
    return tuple(listed) or ("right", "none")


@contextmanager
def calls_seen() -> Iterator[dict[str, set[str]]]:
    """By overload that is called in the block: "recipe" and "fallback", as its calls get programs
    or not."""
    native.torch_module().forget_call_programs()
    seen: dict[str, set[str]] = {}
    compile_call = calls.compile_call

    def noted(name: str, overload: str, *call: Any) -> Any:
        answer = compile_call(name, overload, *call)
        target = f"{name.removeprefix('aten::')}.{overload or 'default'}"
        seen.setdefault(target, set()).add("fallback" if answer.program is None else "recipe")
        return answer

    calls.compile_call = noted
    try:
        yield seen
    finally:
        calls.compile_call = compile_call


def check(mode: str, op: Any, dtype: str, samples: int = SAMPLES) -> None:
    """Asserts that the samples of the operator end as the two files say."""
    with calls_seen() as seen:
        outcome = outcome_of(mode, op, dtype, samples)
    wanted = expected(mode, op, dtype)
    assert outcome in wanted, f"{outcome}, and {OUTCOMES.name} says {wanted}"
    if mode != "eager":
        return
    known = json.loads(CALLS.read_text())
    for target, ways in seen.items():
        listed = set(known.get(target, {}).get(dtype, "").split("+"))
        if listed == {""} and minor_version(torch.__version__) != WRITTEN_WITH:
            listed = {"recipe"}
        assert ways <= listed, f"{target}: {ways} in {dtype}, and {CALLS.name} says {listed}"


def update() -> None:
    outcomes: dict[str, dict[str, dict[str, list[str]]]] = {}
    ways: dict[str, dict[str, set[str]]] = {}
    for mode, dtype in itertools.product(("eager", "lazy"), TYPES):
        table = outcomes.setdefault(mode, {}).setdefault(dtype, {})
        for op in operators(getattr(torch, dtype)):
            with calls_seen() as seen:
                try:
                    outcome = outcome_of(mode, op, dtype)
                except Exception as error:
                    print(mode, dtype, name_of(op), error, flush=True)
                    continue
            if outcome not in ("right", "none"):
                table.setdefault(outcome, []).append(name_of(op))
            if mode == "eager":
                for target, found in seen.items():
                    ways.setdefault(target, {}).setdefault(dtype, set()).update(found)
        print(mode, dtype, {outcome: len(names) for outcome, names in table.items()}, flush=True)
    outcomes["compiled"] = {}  # steps on the CPU are allowed there
    OUTCOMES.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n")
    listed = {
        target: {dtype: "+".join(sorted(found, reverse=True)) for dtype, found in by_type.items()}
        for target, by_type in sorted(ways.items())
    }
    rows = (f"{json.dumps(target)}: {json.dumps(row)}" for target, row in listed.items())
    CALLS.write_text("{\n " + ",\n ".join(rows) + "\n}\n")


if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["--update"]:
        update()
