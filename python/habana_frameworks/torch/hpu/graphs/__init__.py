"""HPU graphs under the names that scripts written for Gaudi use."""

from __future__ import annotations

from .callables import make_graphed_callables as make_graphed_callables
from .capture import HPUGraph as HPUGraph
from .capture import graph as graph
from .capture import is_current_stream_capturing as is_current_stream_capturing
from .compiled import ModuleCacher as ModuleCacher
from .compiled import wrap_in_hpu_graph as wrap_in_hpu_graph
from .compiled import wrap_in_hpu_graph_func as wrap_in_hpu_graph_func

# Names of the bridge that are not offered here, with what to use instead.
ABSENT = dict.fromkeys(
    ("CachedParams", "GraphModel", "TensorPacker", "input_hash", "copy_to"),
    "it belongs to the reference's cache of captures; wrap_in_hpu_graph compiles instead, and "
    "compiled programs need no copies of their inputs",
)
