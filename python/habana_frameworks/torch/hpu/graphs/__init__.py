"""HPU graphs under the names that scripts written for Gaudi use."""

from __future__ import annotations

from .by_hand import CachedParams as CachedParams
from .by_hand import TensorPacker as TensorPacker
from .by_hand import copy_to as copy_to
from .by_hand import input_hash as input_hash
from .cacher import ModuleCacher as ModuleCacher
from .callables import make_graphed_callables as make_graphed_callables
from .capture import HPUGraph as HPUGraph
from .capture import graph as graph
from .capture import graph_pool_handle as graph_pool_handle
from .capture import is_current_stream_capturing as is_current_stream_capturing
from .wrapped import wrap_in_hpu_graph as wrap_in_hpu_graph
from .wrapped import wrap_in_hpu_graph_func as wrap_in_hpu_graph_func

# Names of the bridge that are not offered here, with what to use instead.
ABSENT = {"GraphModel": "it is the reference's part of ModuleCacher, which does what it does"}
