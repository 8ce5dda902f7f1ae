"""Which paper, which of its tables and figures: the entry point of ``sfumato paper``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput

__all__ = ["Regenerated", "Report", "Request", "regenerate"]

#: Called with the stage and the share of it that is done.
Report = Callable[[str, float], None]


@dataclass(frozen=True)
class Request:
    """What of a paper is wanted: numbers of tables and figures, data sets, seeds, and where it goes.

    No ``seeds`` and no ``data`` mean as many and those that the paper has.
    """

    output: Path
    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()
    data: tuple[str, ...] = ()
    seeds: int | None = None
    quick: bool = False


@dataclass(frozen=True)
class _Paper:
    """Where the function ``tables_and_figures`` of a paper is, and what it can make."""

    module: str
    tables: tuple[int, ...]
    figures: tuple[int, ...]


_PAPERS = {
    "compactdp": _Paper("sfumato_reproductions.compactdp", (2, 3, 4, 5, 6, 7), (3, 11, 12, 13, 16)),
    "curvature-publication": _Paper(
        "sfumato_reproductions.curvature_publication", (1, 2), tuple(range(3, 9))
    ),
    "multimedia-dp": _Paper("sfumato_reproductions.multimedia_dp", (1, 2, 4, 5), (2,)),
    "tadp-rme": _Paper("sfumato_reproductions.tadp_rme", (1, 2, 3, 4, 5), tuple(range(2, 11))),
    "tldp": _Paper("sfumato_reproductions.tldp", (5,), (1, 2, 3)),
}


@dataclass(frozen=True)
class Regenerated:
    """Figures or tables: their numbers, a text for people, and the files that were written."""

    title: str
    text: str
    numbers: dict[str, Any]
    files: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {"title": self.title, "numbers": self.numbers, "files": [str(file) for file in self.files]}

    def __str__(self) -> str:
        return "\n".join([self.title, "", self.text, "", *(f"written: {file}" for file in self.files)])


def regenerate(
    name: str,
    output: Path,
    report: Report | None = None,
    *,
    tables: Sequence[int] = (),
    figures: Sequence[int] = (),
    data: Sequence[str] = (),
    seeds: int | None = None,
    quick: bool = False,
) -> Regenerated:
    """Make ``tables`` and ``figures`` of the paper ``name`` in the folder ``output``.

    Where neither is named all of them are made. ``quick`` is a small run
    that shows that everything works; its numbers are not the paper's.
    """
    if name not in _PAPERS:
        raise BadInput(f"there is no paper {name!r} here; choose one of {', '.join(_PAPERS)}.")
    paper = _PAPERS[name]
    _check(name, paper, tables, figures)
    if seeds is not None and seeds < 1:
        raise BadInput(f"--seeds was {seeds}; one or more are accepted.")
    wanted = Request(
        output, tuple(sorted(set(tables))), tuple(sorted(set(figures))), tuple(data), seeds, quick
    )
    result: Regenerated = importlib.import_module(paper.module).tables_and_figures(
        wanted, report or (lambda stage, share: None)
    )
    return result


def _check(name: str, paper: _Paper, tables: Sequence[int], figures: Sequence[int]) -> None:
    for kind, made, known, asked in (
        ("table", "made", paper.tables, tables),
        ("figure", "drawn", paper.figures, figures),
    ):
        if not set(asked) <= set(known):
            listed = ", ".join(str(number) for number in known)
            raise BadInput(f"of {name} these {kind}s are {made}: {listed}; give one with --{kind}.")
