"""Layers that calculate in fp8, with scales that follow the largest elements seen before.

    with te.fp8_autocast(enabled=True, fp8_recipe=te.recipe.DelayedScaling()):
        y = te.Linear(64, 64)(x)

docs/transformer_engine.md says how scales are found.
"""

from . import cpp_extensions as cpp_extensions
from . import distributed as distributed
from . import fp8 as fp8
from . import recipe as recipe
from . import utils as utils
from .distributed import activation_checkpointing as activation_checkpointing
from .fp8 import fp8_autocast as fp8_autocast
from .fp8 import is_fp8_available as is_fp8_available
from .fp8 import is_fp8_enabled as is_fp8_enabled
from .linear import Linear as Linear
from .normalization import LayerNorm as LayerNorm

_ABSENT = {
    "FusedAttention": "use habana_frameworks.torch.hpex.kernels.FusedSDPA, which is not in fp8",
    "MixtureOfExperts": "layers of experts are not in fp8 here",
}


def __getattr__(name: str) -> object:
    hint = _ABSENT.get(name)
    raise AttributeError(f"transformer_engine has no {name!r}" + (f": {hint}" if hint else ""))
