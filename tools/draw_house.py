"""Draw the picture of docs/architecture.md: doors, the request, the path, the kinds, and the ground floor.

python tools/draw_house.py docs/images/house.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

WIDTH, ROW, GAP, LEFT = 980, 74, 26, 120
# A row: its name, and boxes of a title and a line below it.
ROWS = {
    "doors": {
        "Python": "sf.protect(…)",
        "cli/": "one module a command",
        "serve/": "REST · gRPC · pages · S3",
    },
    "request": {"release/request.py": "ReleaseRequest: what is wanted, typed, checked once, in plain values"},
    "path": dict.fromkeys(("open", "check", "pay", "draw", "judge", "certify", "write"), ""),
    "kinds": {
        "file": "mechanisms/, media/",
        "folder": "many files",
        "model": "learners/",
        "publication": "publishers/",
        "federated run": "learners/federated/",
    },
    "beside": {
        "ledger/": "budgets, spends",
        "reports/": "certificates, pages",
        "audits/": "attacks, bounds",
        "utility/": "what survived",
    },
    "ground": {"privacy/": "guarantees, accounting", "noise/": "exact samplers", "io/": "formats, stores"},
}
COLOURS = {"request": "#fff4d6", "path": "#dcebdd", "doors": "#e4ebf7"}


def house() -> str:
    """Return the picture as SVG."""
    height = len(ROWS) * (ROW + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
    ]
    for number, (name, boxes) in enumerate(ROWS.items()):
        top = GAP + number * (ROW + GAP)
        parts.append(f'<text x="16" y="{top + ROW / 2 + 6}" font-size="17" fill="#555">{name}</text>')
        between = 22 if name == "path" else 14
        wide = (WIDTH - LEFT - 16 - between * (len(boxes) - 1)) / len(boxes)
        for place, (title, below) in enumerate(boxes.items()):
            left = LEFT + place * (wide + between)
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{ROW}" rx="8" '
                f'fill="{COLOURS.get(name, "#f3f1ee")}" stroke="#777"/>'
            )
            line = top + ROW / 2 + (6 if not below else -4)
            middle = left + wide / 2
            parts.append(
                f'<text x="{middle:.1f}" y="{line}" font-size="18" text-anchor="middle">{title}</text>'
            )
            if below:
                parts.append(
                    f'<text x="{middle:.1f}" y="{line + 24}" font-size="14" fill="#444" text-anchor="middle">'
                    f"{below}</text>"
                )
            if name == "path" and place:
                parts.append(_arrow(left - between + 2, top + ROW / 2, left - 2, top + ROW / 2))
        if number < 3:
            middle = LEFT + (WIDTH - LEFT - 16) / 2
            parts.append(_arrow(middle, top + ROW + 2, middle, top + ROW + GAP - 2))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _arrow(left: float, top: float, right: float, bottom: float) -> str:
    ends = f'x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"'
    return f'<line {ends} stroke="#555" stroke-width="1.6" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(house(), encoding="utf-8")
