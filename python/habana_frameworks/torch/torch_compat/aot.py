"""AOTAutograd, which partitions a graph into a forward and a backward."""

from __future__ import annotations

from torch._dynamo.backends.common import aot_autograd as aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func as make_boxed_func
from torch._functorch.partitioners import (
    min_cut_rematerialization_partition as min_cut_rematerialization_partition,
)
