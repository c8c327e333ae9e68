"""A picture of losses over steps, as SVG."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

_WIDTH, _HEIGHT, _MARGIN = 640, 360, 48
_COLOURS = ("#0057b8", "#e07000", "#2a8a2a", "#8a2a8a")


def write_picture(path: Path, losses: Mapping[str, Sequence[float]]) -> None:
    """One curve per name; the first curve is wide, so that an equal one on it is seen."""
    steps = max(len(values) for values in losses.values())
    top = max(max(values) for values in losses.values())

    def place(step: int, loss: float) -> str:
        x = _MARGIN + (_WIDTH - 2 * _MARGIN) * step / max(steps - 1, 1)
        y = _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * loss / top
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<path d="M{place(0, top)} L{place(0, 0)} L{place(steps - 1, 0)}" fill="none" '
        'stroke="#888"/>',
        f'<text x="{_MARGIN}" y="{_HEIGHT - 16}">step 0</text>',
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - 16}" text-anchor="end">{steps - 1}</text>',
        f'<text x="{_MARGIN}" y="{_MARGIN - 10}">loss {top:.2f}</text>',
    ]
    for number, (name, values) in enumerate(losses.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(place(step, value) for step, value in enumerate(values))
        width = 5 if number == 0 else 1.5
        opacity = 0.4 if number == 0 else 1
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'opacity="{opacity}"/>'
        )
        parts.append(
            f'<text x="{_WIDTH - _MARGIN}" y="{_MARGIN + 18 * number}" text-anchor="end" '
            f'fill="{colour}">{html.escape(name)}</text>'
        )
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")
