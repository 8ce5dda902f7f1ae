"""What the pages of all papers share: where they go, the command that makes them again, lists and figures."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from sfumato.io.atomic import atomic_output
from sfumato.papers.regenerate import Request

__all__ = ["PaperPage", "figure_section", "listed"]


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
