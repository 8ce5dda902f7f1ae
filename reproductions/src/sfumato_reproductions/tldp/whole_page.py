"""The page of this paper has two parts, each made by a command of its own: what is not made again stays.

Table 5 and figures 1 and 2, which share data and seeds, come first; figure 3, which trains for itself on
other data, is the last chapter.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.io import atomic_output

__all__ = ["write_page"]

_FIGURE_3 = "## Figure 3: "
_NO_FRONT = "# TLDP beside the paper\n\nTable 5 and figures 1 and 2 were not made here.\n"


def write_page(file: Path, front: str | None, figure_3: str | None) -> Path:
    """Write ``file`` from the parts that were made; one that is None stays as it is there."""
    before = file.read_text("utf-8") if file.is_file() else ""
    old_front, old_figure = _parted(before)
    parts = [
        front if front is not None else old_front or _NO_FRONT,
        figure_3 if figure_3 is not None else old_figure,
    ]
    with atomic_output(file) as output:
        output.write("\n".join(part for part in parts if part).encode())
    return file


def _parted(page: str) -> tuple[str, str]:
    """All before figure 3, ending in one line break, and figure 3; either may be empty."""
    front, mark, figure = f"\n{page}".partition(f"\n{_FIGURE_3}")
    kept = front.strip("\n")
    return (f"{kept}\n" if kept else ""), (f"{_FIGURE_3}{figure}" if mark else "")
