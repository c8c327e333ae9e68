"""The log of compiled graphs under the name that readers of Gaudi's documentation know
(capture/listing.py)."""

from __future__ import annotations

from ..capture.listing import logger as logger
