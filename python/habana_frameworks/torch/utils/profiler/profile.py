"""The result of profile(): a trace, and the report that is made from it."""

from __future__ import annotations

from .report import Report
from .trace import Trace


class Profile(Trace):
    """The result of profile(). It is empty until the block has ended."""

    def report(self, measure_peak: bool = True) -> Report:
        """The times by kernel, engine and recipe. Its str() is a table.

        measure_peak: compares them with the rates that this host reaches at its best (measured once
        per host, in about a second).
        """
        return Report.of(self, measure_peak)
