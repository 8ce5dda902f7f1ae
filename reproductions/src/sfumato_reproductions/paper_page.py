"""What the pages of all papers share: where they go, the command that makes them again, lists and figures."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import sfumato
from sfumato.io import atomic_output
from sfumato_reproductions.regenerate import Request

__all__ = ["PaperPage", "duration", "figure_section", "listed", "protocol", "versions"]


class _Drawn(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def caption(self) -> str: ...


class PaperPage(ABC):
    """A page ``PAPER``.md about a paper, made for a ``request``."""

    PAPER: ClassVar[str]
    request: Request

    @abstractmethod
    def markdown(self) -> str:
        """The whole page."""

    @property
    def data_used(self) -> tuple[str, ...]:
        """The data sets that the command names."""
        return ()

    def write(self) -> Path:
        """Write the page into the folder of the request and say where it is."""
        file = self.request.output / f"{self.PAPER}.md"
        with atomic_output(file) as output:
            output.write(self.markdown().encode())
        return file

    def command(self) -> str:
        """The command that makes this page again."""
        request, words = self.request, ["sfumato", "paper", self.PAPER]
        words += [word for number in request.tables for word in ("--table", str(number))]
        words += [word for number in request.figures for word in ("--figure", str(number))]
        words += [word for name in self.data_used for word in ("--data", name)]
        words += ["--seeds", str(request.seeds)] if request.seeds is not None else []
        words += ["--quick"] if request.quick else []
        return shlex.join([*words, "-o", str(request.output)])


def listed(findings: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A section for each heading that has sentences."""
    for head, told in findings.items():
        if told:
            yield "\n\n".join([f"## {head}", "\n".join(f"- {sentence}" for sentence in told)])


def figure_section(drawing: _Drawn) -> str:
    """A figure with its title and caption."""
    return (
        f"## Figure {drawing.number}: {drawing.title}\n\n![{drawing.title}]({drawing.file})"
        f"\n\n{drawing.caption}"
    )


def protocol(
    stated: Sequence[str],
    chosen: Sequence[str],
    left_out: Sequence[str] = (),
    *,
    open_head: str = "It leaves open, and we chose:",
) -> str:
    """What the paper says, what was chosen where it is silent, and what is not repeated."""
    lines = ["## Protocol"]
    heads = (
        ("The paper says:", stated),
        (open_head, chosen),
        ("Of the paper these are not repeated:", left_out),
    )
    for head, texts in heads:
        if texts:
            lines += ["", head, "", *(f"- {text}." for text in texts)]
    return "\n".join(lines)


def versions(*libraries: str) -> dict[str, str]:
    """Of this package, of Python and of the ``libraries`` that a page rests on."""
    found = {name: importlib.metadata.version(name) for name in libraries}
    return {"sfumato": sfumato.__version__, "Python": platform.python_version()} | found


def duration(seconds: float) -> str:
    """Seconds, or minutes where there are many."""
    return f"{seconds / 60.0:.1f} minutes" if seconds >= 90.0 else f"{seconds:.0f} seconds"
