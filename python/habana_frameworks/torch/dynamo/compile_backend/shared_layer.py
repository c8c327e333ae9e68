"""The log of decisions per node, and the list of operators to run eagerly, under the names that
readers of Gaudi's documentation know (records/node_decisions.py, records/fallback_list.py)."""

from __future__ import annotations

from ..records import op_watch
from ..records.fallback_list import names as hpu_fallback_op_list  # noqa: F401
from ..records.node_decisions import logger as logger

op_watch.ask_about_log(lambda: logger.store_data)
