"""The page of a warm-up's report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Report

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #222 }
table { border-collapse: collapse; margin-top: 1em }
th, td { text-align: left; padding: .2em .8em; border-bottom: 1px solid #ddd }
tr.failed td, tr.left td { background: #fde8e8 }
tr.compiled td { background: #eef6e8 }
.stopped { color: #a00 }
"""


def to_html(report: Report, head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    rows = "\n".join(
        f'<tr class="{row.result}">' + "".join(f"<td>{html.escape(c)}</td>" for c in line) + "</tr>"
        for row, line in zip(report.rows, cells, strict=True)
    )
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    kind = ' class="stopped"' if not report.complete else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Warm-up</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>Warm-up</h1>\n"
        f"<p{kind}>{html.escape(report.summary())}</p>\n"
        f"<table><thead><tr>{names}</tr></thead><tbody>\n{rows}\n</tbody></table>\n"
        "</body></html>\n"
    )
