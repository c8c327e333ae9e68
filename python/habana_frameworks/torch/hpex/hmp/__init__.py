"""Habana mixed precision: casts between f32 and bf16 around PyTorch's functions.

    from habana_frameworks.torch.hpex import hmp
    hmp.convert()
    ...
    with hmp.disable_casts():
        optimizer.step()

docs/mixed_precision.md has the rules and both default lists.
"""

from .conversion import convert as convert
from .conversion import disable_casts as disable_casts
