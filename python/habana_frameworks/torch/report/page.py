"""The page: one HTML file with everything in it. Content from the user is always text, never
markup."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from .document import Document
from .svg import to_svg

_FOLDER = Path(__file__).parent
_SCRIPTS = ("page.js", "charts.js", "drawing.js", "sections.js")
_FRAME_HEIGHT_PX = 860


def to_json(document: Document, indent: int | None = 1) -> str:
    return json.dumps(document.as_dict(), indent=indent)


def to_html(document: Document) -> str:
    parts = {
        "title": html.escape(document.title),
        "style": (_FOLDER / "page.css").read_text(encoding="utf-8"),
        "script": "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        "document": _inside_script(to_json(document, indent=None)),
        "drawings": "\n".join(_drawings(document)),
    }
    template = (_FOLDER / "page.html").read_text(encoding="utf-8")
    # Everything is replaced in one pass, so that inserted text is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def to_frame(document: Document) -> str:
    """The page in a frame of its own, for a notebook."""
    return (
        f'<iframe srcdoc="{html.escape(to_html(document))}" '
        f'style="width:100%;height:{_FRAME_HEIGHT_PX}px;border:0" '
        f'sandbox="allow-scripts" title="{html.escape(document.title)}"></iframe>'
    )


def _inside_script(text: str) -> str:
    """JSON that no HTML parser takes for the end of the script, or for the beginning of a
    comment."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _drawings(document: Document) -> list[str]:
    """The drawings as templates, which stay inert until the page shows one of them."""
    return [
        f'<template id="drawing-{g}-{d}">{to_svg(drawing, style=False)}</template>'
        for g, graph in enumerate(document.graphs)
        for d, drawing in enumerate(graph.drawings)
    ]
