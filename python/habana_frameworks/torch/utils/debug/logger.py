"""Loggers under the name that programs for Gaudi know (internal/logger.py)."""

from __future__ import annotations

from ...internal.logger import Logger as Logger
from ...internal.logger import enable_logging as enable_logging
