"""The front end of eager ops: how one ATen call on hpu tensors gets its program.

backend/torch/record/ finds the programs of known calls; it asks here once per signature of a call.
"""

from __future__ import annotations

from typing import Any

from .. import native
from ..dynamo.capture.decompositions.aten_rules import ATEN_RULES


def _compile_call(*call: Any) -> Any:
    # What captures and compiles is imported at the first call that needs it.
    from .calls import compile_call

    return compile_call(*call)


def connect() -> None:
    """Makes eager ops use recipes. The import of the package calls it."""
    device = native.torch_module()
    device.set_recipe_ops(sorted({rule.split(".")[1] for rule in ATEN_RULES}))
    device.set_call_compiler(_compile_call)
