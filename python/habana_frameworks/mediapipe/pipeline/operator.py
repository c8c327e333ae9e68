"""Operators with their arguments, and the graph that calls of them make."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .run import Run, Step

REQUIRED: Any = object()  # the default of an argument that must be given
_numbers = itertools.count()


class Output:
    """One output of a call in a graph."""

    def __init__(self, call: Call, index: int) -> None:
        self.call = call
        self.index = index

    def as_hpu(self) -> Output:
        """Every output of a pipeline goes to the pipeline's device."""
        return self


class Call:
    """An operator with its inputs. Numbers grow, and inputs have smaller numbers."""

    def __init__(self, operator: Operator, inputs: tuple[Output, ...]) -> None:
        self.operator = operator
        self.inputs = inputs
        self.number = next(_numbers)
        self.outputs = tuple(Output(self, i) for i in range(operator.output_count()))


class Operator:
    """A class of habana_frameworks.mediapipe.fn. Its instances are made with keyword arguments and
    called with outputs of others."""

    # The arguments beside `device` with their defaults.
    ARGUMENTS: ClassVar[dict[str, Any]] = {}
    # The values that an argument may have, for those that have a closed list of them.
    CHOICES: ClassVar[dict[str, tuple[Any, ...]]] = {}
    INPUTS: ClassVar[tuple[int, int]] = (1, 1)  # the least and the most
    OUTPUTS: ClassVar[int] = 1
    # Whether a call begins an epoch, and its `epoch_length` says how many batches that has.
    READS: ClassVar[bool] = False
    # Whether inputs may be images that are not yet decoded, or views; for other operators tensors
    # are made of them before the call.
    TAKES_PENDING: ClassVar[bool] = False

    def __init__(self, *positional: Any, device: str | None = None, **given: Any) -> None:
        if positional:
            raise TypeError(f"{self.title} takes keyword arguments only")
        for name in given:
            if name not in self.ARGUMENTS:
                known = ", ".join(["device", *self.ARGUMENTS])
                raise TypeError(f"{self.title} has no argument {name!r}; it has {known}")
        arguments = {**self.ARGUMENTS, **given}
        for name, value in arguments.items():
            if value is REQUIRED:
                raise TypeError(f"{self.title} needs the argument {name!r}")
            if name in self.CHOICES and value not in self.CHOICES[name]:
                allowed = ", ".join(map(repr, self.CHOICES[name]))
                raise NotImplementedError(
                    f"{self.title} is not built for {name}={value!r}; it is for {allowed}"
                )
        self.arguments = SimpleNamespace(**arguments)
        self.check()

    @property
    def title(self) -> str:
        return f"fn.{type(self).__name__}"

    def check(self) -> None:
        """Raises for arguments that are wrong or not built."""

    def output_count(self) -> int:
        return self.OUTPUTS

    def __call__(self, *inputs: Any) -> Any:
        """An output, or a tuple of several."""
        least, most = self.INPUTS
        if not least <= len(inputs) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise TypeError(f"{self.title} takes {count} inputs and was called with {len(inputs)}")
        for position, value in enumerate(inputs):
            if not isinstance(value, Output):
                raise TypeError(
                    f"input {position} of {self.title} must be an output of an operator and is a "
                    f"{type(value).__name__}; constants are made by fn.MediaConst"
                )
        outputs = Call(self, inputs).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def prepare(self, batch_size: int, queue_depth: int) -> None:
        """Called once, when the pipeline is built."""

    def begin_epoch(self, epoch: int) -> None:
        """Called before the first batch of each epoch. The first one is epoch 0."""

    def epoch_length(self) -> int:
        raise NotImplementedError

    def evaluate(self, run: Run, *inputs: Any) -> Generator[Step, None, tuple[Any, ...]]:
        """The outputs for one batch. It yields what must be done before it can go on. Calls of one
        operator begin in the order of batches."""
        yield from ()
        result = self.compute(run, *inputs)
        return result if isinstance(result, tuple) else (result,)

    def compute(self, run: Run, *inputs: Any) -> Any:
        """The output, or a tuple of them, of operators that wait for nothing."""
        raise NotImplementedError
