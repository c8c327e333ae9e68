"""The log of decisions per node under the name that readers of Gaudi's documentation know
(records/node_decisions.py)."""

from __future__ import annotations

from ..records.node_decisions import logger as logger
