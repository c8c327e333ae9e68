"""What profile() gives: a trace, and the report that is made of it."""

from __future__ import annotations

from .report import Report
from .trace import Trace


class Profile(Trace):
    """Result of profile(). Empty until its block has ended."""

    def report(self, measure_peak: bool = True) -> Report:
        """Times by kernel, engine and recipe. str() of it is a table.

        measure_peak: also with what this host reaches at its best (measured once per host, in about
        a second), for the shares of it.
        """
        return Report.of(self, measure_peak)
