"""The class of parameters that the bridge's weight sharing makes.

Programs read the tensors of a model in place, so no parameter is ever wrapped here: the class
exists for programs that ask whether a parameter is one.
"""

from __future__ import annotations

import torch


class HabanaParameterWrapper(torch.nn.Parameter):
    """No tensor has this class."""
