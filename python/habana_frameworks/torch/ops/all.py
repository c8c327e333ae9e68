"""Defines every operator of the namespace when it is imported."""

from __future__ import annotations

from . import attention as attention
from . import cache as cache
from . import embedding as embedding
from . import experts as experts
from . import fast_math as fast_math
from . import fp8 as fp8
from . import int4 as int4
from . import optimizers as optimizers
from . import recurrent as recurrent
from . import rotary as rotary
from . import softmax as softmax
