"""A drawing as SVG."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from .document import Drawing
from .layout import NODE_HEIGHT, arrange, node_lines

_MARGIN = 12.0

# The colours for files; the page's style sheet has its own for the same classes.
_STYLE = """
text{font:600 12px system-ui,sans-serif;text-anchor:middle;fill:#1b2330}
text.type{font:400 10.5px ui-monospace,monospace;fill:#5a6577}
rect{fill:#eef1f6;stroke:#9aa6b8}
.product rect{fill:#dbe8ff;stroke:#3b6fd4}
.movement rect{fill:#f3f0e6;stroke:#b4a777}
.eager rect{fill:#ffe1da;stroke:#d2512f}
.input rect,.output rect{fill:#e4f5e9;stroke:#3f9d62}
path{fill:none;stroke:#8a97ab;stroke-width:1.2}
"""


def to_svg(drawing: Drawing, style: bool = True) -> str:
    """style: True writes a style sheet, for a file; False is for a page that has one."""
    layout = arrange(drawing)
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} '
        f'{width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f"aria-label={quoteattr(_clean(drawing.stage))}>"
    ]
    if style:
        parts.append(f"<style>{_STYLE}</style>")
    parts += [f'<path d="{_curve(points)}"/>' for points in layout.paths]
    for node in drawing.nodes:
        box = layout.boxes[node.id]
        name, type = node_lines(node)
        told = "\n".join(t for t in (node.op, node.type, node.detail, node.source) if t)
        parts.append(
            f'<g class="node {node.kind}"><title>{_text(told)}</title>'
            f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - NODE_HEIGHT / 2:.1f}" '
            f'width="{box.width:.1f}" height="{NODE_HEIGHT:.0f}" rx="7"/>'
            f'<text x="{box.x:.1f}" y="{box.y + (-3 if type else 4):.1f}">{_text(name)}</text>'
            + (
                f'<text class="type" x="{box.x:.1f}" y="{box.y + 13:.1f}">{_text(type)}</text>'
                if type
                else ""
            )
            + "</g>"
        )
    parts.append("</svg>\n")
    return "".join(parts)


def _clean(text: str) -> str:
    """Removes control characters, which XML does not allow."""
    return "".join(c if c >= " " or c in "\n\t" else "\ufffd" for c in text)


def _text(text: str) -> str:
    return escape(_clean(text))


def _curve(points: list[tuple[float, float]]) -> str:
    """A curve that is vertical at every point."""
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for next_x, next_y in points[1:]:
        bend = (next_y - y) / 2
        path += (
            f"C{x:.1f} {y + bend:.1f} {next_x:.1f} {next_y - bend:.1f} {next_x:.1f} {next_y:.1f}"
        )
        x, y = next_x, next_y
    return path
