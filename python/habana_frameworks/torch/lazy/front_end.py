"""The Python functions that backend/torch/record/ calls. They make the programs of eager calls and
of recordings, describe the results of recorded calls, and run recurrent layers as calls that can be
recorded."""

from __future__ import annotations

from typing import Any

from .. import native
from ..dynamo.capture.decompositions.aten_rules import ATEN_RULES


class _FrontEnd:
    """The functions that C++ calls. The modules that capture and compile are imported at the first
    call that needs them."""

    @staticmethod
    def compile_call(*call: Any) -> Any:
        from ..eager.calls import compile_call

        return compile_call(*call)

    @staticmethod
    def describe_call(*call: Any) -> Any:
        from .calls import describe_call

        return describe_call(*call)

    @staticmethod
    def compile_recording(*recording: Any) -> Any:
        from .recordings import compile_recording

        return compile_recording(*recording)

    @staticmethod
    def call_layers(kind: str, *call: Any) -> Any:
        from ..ops.recurrent import layers

        return layers(kind, *call)


def connect() -> None:
    """Makes operators on hpu use recipes. The import of the package calls it."""
    device = native.torch_module()
    device.set_recipe_ops(sorted({rule.split(".")[1] for rule in ATEN_RULES}))
    device.set_front_end(_FrontEnd)
