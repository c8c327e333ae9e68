"""The page of a warm-up's report."""

from __future__ import annotations

import html
from collections.abc import Sequence

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #222 }
table { border-collapse: collapse; margin-top: 1em }
th, td { text-align: left; padding: .2em .8em; border-bottom: 1px solid #ddd }
tr.failed td, tr.left td { background: #fde8e8 }
tr.compiled td { background: #eef6e8 }
.stopped { color: #a00 }
"""


def to_html(
    summary: str,
    complete: bool,
    head: Sequence[str],
    cells: Sequence[Sequence[str]],
    results: Sequence[str],
) -> str:
    """cells: one line per shape, with the columns that `head` names. results: one per line, for its
    colour."""
    rows = "\n".join(
        f'<tr class="{result}">' + "".join(f"<td>{html.escape(c)}</td>" for c in line) + "</tr>"
        for result, line in zip(results, cells, strict=True)
    )
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    kind = ' class="stopped"' if not complete else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Warm-up</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>Warm-up</h1>\n"
        f"<p{kind}>{html.escape(summary)}</p>\n"
        f"<table><thead><tr>{names}</tr></thead><tbody>\n{rows}\n</tbody></table>\n"
        "</body></html>\n"
    )
