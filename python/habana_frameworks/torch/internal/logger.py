"""Logger objects whose lines other programs parse."""

from __future__ import annotations

import logging
from typing import Any


class Logger:
    """Lines "[TYPE] text" for Python's logging and, on request, for `data`.

    The text is formatted with {} if the first argument contains "{}", else with % if it contains
    "%", else the arguments are joined by ", ".
    """

    def __init__(self, type: str) -> None:
        self.type = type
        self.data: list[str] = []
        self.store_data = False
        self._log = logging.getLogger("habana_frameworks.torch." + type.lower().replace(" ", "_"))

    def set_store_data(self, store: bool) -> None:
        """Stores lines in `data` from now on, or stops doing so; `data` is emptied."""
        self.store_data = store
        self.data.clear()

    def enabled(self, level: int) -> bool:
        """True if a line of that level is logged or stored; for callers with costly arguments."""
        return self.store_data or self._log.isEnabledFor(level)

    def _write(self, level: int, args: tuple[Any, ...], logs: bool = True) -> None:
        if not self.enabled(level):
            return
        head = str(args[0]) if args else ""
        if "{}" in head:
            text = head.format(*args[1:])
        elif "%" in head:
            text = head % args[1:]
        else:
            text = ", ".join(map(str, args))
        line = f"[{self.type}] {text}"
        if self.store_data:
            self.data.append(line)
        if logs:
            self._log.log(level, "%s", line)

    def trace(self, *args: Any) -> None:
        self._write(5, args)

    def debug(self, *args: Any) -> None:
        self._write(logging.DEBUG, args)

    def info(self, *args: Any) -> None:
        self._write(logging.INFO, args)

    def warn(self, *args: Any) -> None:
        self._write(logging.WARNING, args)

    def warn_if(self, logs: bool, *args: Any) -> None:
        """Stores the line in `data` in any case, and logs it where `logs` is set."""
        self._write(logging.WARNING, args, logs)

    def error(self, *args: Any) -> None:
        self._write(logging.ERROR, args)

    def critical(self, *args: Any) -> None:
        self._write(logging.CRITICAL, args)


_LEVELS = {
    "critical": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": 5,
}


def enable_logging(name: str, level: str) -> None:
    """enable_logging("LOG_LEVEL_ALL_PT", "debug") sets the level of this package's Python
    loggers."""
    if not name.startswith("LOG_LEVEL_"):
        raise ValueError(f"{name!r}: expected LOG_LEVEL_ALL_PT or LOG_LEVEL_<LOGGER>")
    if level not in _LEVELS:
        raise ValueError(f"{level!r}: expected one of {', '.join(_LEVELS)}")
    suffix = name.removeprefix("LOG_LEVEL_")
    target = "habana_frameworks.torch"
    if suffix not in ("ALL", "ALL_PT"):
        target += "." + suffix.lower()
    logging.getLogger(target).setLevel(_LEVELS[level])
