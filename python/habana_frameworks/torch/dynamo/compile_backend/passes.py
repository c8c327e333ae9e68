"""The log of compiled graphs under the name that readers of Gaudi's documentation know
(capture/listing.py)."""

from __future__ import annotations

from ..capture.listing import is_read
from ..capture.listing import logger as logger
from ..records import op_watch

op_watch.ask_about_log(is_read)
