"""Releases fitted to a labelled dataset: what is declared of it, and what models and publications share."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.io import ArrayPair, DatasetSource, check_top, is_archive
from sfumato.noise import Randomness
from sfumato.privacy import TEXT_WIDTH, Guarantee, Statement, printable
from sfumato.release.audit_slack import set_aside, withholding_note
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.path import Kind, Payment, Protected, Report, Spending, check_output
from sfumato.release.release_plan import Plan, cost_of, groups_of
from sfumato.reports import Entry, certificate_file, write_report

_WHITE = {np.dtype(np.uint8): 255.0, np.dtype(np.uint16): 65535.0}
# Notes of a statement about the names of classes.
_NAMED = "the classes have the names of their folders, which the owner declares public"
_NUMBERED = "the classes are numbered in the alphabetical order of their folders; no name of a class travels"


@dataclass(frozen=True)
class PublicFacts:
    """Public facts about a dataset of images, which may stand in a statement.

    ``shape`` is that of an image, ``top`` its largest value. ``classes`` is None if nobody declared how many
    there are. ``records`` is the number of images, which is public under ``replace`` and ``zero-out``.
    """

    shape: tuple[int, ...]
    top: float
    classes: int | None
    records: int


def facts_of(source: DatasetSource, *, classes: int | None, top: float | None) -> PublicFacts:
    """Return the facts of a dataset of images for the declared ``classes`` and ``top``, the value of white.

    A folder declares its classes; images of 8 and 16 bits have a white of their own.
    """
    classes = declared_classes(source, classes)
    top = _WHITE.get(source.dtype) if top is None else top
    if top is None:
        raise BadInput(
            f"pictures of type {source.dtype} need the value of white, as in `top=1`; it must not be read "
            "off the data.",
            parameter="top",
        )
    check_top(top, source.dtype)
    return PublicFacts(source.shape, float(top), classes, records_of(source))


def declared_classes(source: DatasetSource, classes: int | None) -> int | None:
    """Return the number of classes: that of the class folders, or what is declared of an archive."""
    if source.class_names is None:
        return classes
    if classes is not None:
        raise BadInput(
            "`classes` is for an .npz: the classes of a folder are its sub-folders.", parameter="classes"
        )
    return len(source.class_names)


def records_of(source: DatasetSource) -> int:
    """Return how many records there are, by headers and names."""
    return source.pictures.rows if isinstance(source, ArrayPair) else len(source.files)


def check_range(pictures: NDArray[Any], top: float) -> None:
    """Refuse images with values that are not between 0 and ``top``."""
    flat = pictures.reshape(len(pictures), -1)
    wrong = np.flatnonzero((flat < 0).any(axis=1) | (flat > top).any(axis=1))
    if wrong.size:
        raise BadInput(
            f"picture {wrong[0]} holds a value outside 0 (black) to {top:g} (white); declare the value of "
            "white by `top`."
        )


def names_of(source: DatasetSource, classes: int) -> tuple[str, ...]:
    """Return the public names of the classes: those of :class:`ClassFolders`, or the labels."""
    if source.class_names is not None:
        return source.class_names
    width = len(str(classes - 1))
    return tuple(f"{label:0{width}d}" for label in range(classes))


def names_note(source: DatasetSource) -> tuple[str, ...]:
    """Return the note of a statement about the names of class folders; an archive has none."""
    if isinstance(source, ArrayPair):
        return ()
    return (_NAMED if source.public_names else _NUMBERED,)


def owned_names(source: DatasetSource) -> dict[str, str]:
    """Return the folder of each class, for the owner alone; an archive has none."""
    return {} if isinstance(source, ArrayPair) else dict(zip(source.class_names, source.folders, strict=True))


def under_budget(kind: type[Any], options: Mapping[str, Any], payment: Payment | None) -> dict[str, Any]:
    """Return ``options`` of ``kind`` with the neighbours of the budget that pays, if none are given.

    Nothing is converted: ``kind`` is calibrated to its sensitivity under these neighbours. A sum of clipped
    records moves by one clipping norm at most if a record becomes null, and by two if another takes its place
    (‖g − g′‖ ≤ ‖g‖ + ‖g′‖), so twice the noise proves the same ε under replace as under zero-out. Steps on
    samples are proven under zero-out alone, and a ``kind`` without neighbours has its own: the ledger refuses
    what does not fit, with the command that opens a fitting budget.
    """
    given = dict(options)
    on_samples = (given.get("sampling") or 1.0) < 1.0
    if payment is None or on_samples or "neighbours" not in inspect.signature(kind).parameters:
        return given
    return given | {"neighbours": given.get("neighbours") or payment.neighbours}


def describe_classes(folders: Mapping[str, str]) -> list[str]:
    """Return a line that says which class is of which of the owner's ``folders``, if names differ."""
    named = [
        f"{printable(name)} is {printable(folder)}" for name, folder in folders.items() if name != folder
    ]
    return [f"Classes, for you alone: {', '.join(named)}"] if named else []


@dataclass(frozen=True, kw_only=True)
class FittedResult:
    """What ``learn`` or ``publish`` wrote, and what its audit found.

    ``certified`` is the file that carries the certificate: an archive, or the manifest of a folder.
    ``statement`` has the measured column, which the certificate leaves out wherever something is proven: it
    is computed from the records and not covered by the proof. ``page`` is the report, if there is one.
    ``folders`` is the folder of each class, for the owner alone.
    """

    output: Path
    certified: Protected
    statement: Statement
    findings: tuple[Finding, ...]
    class_names: tuple[str, ...]
    page: Path | None = None
    folders: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the result for people, its statement in lines of at most ``width`` characters."""
        return "\n".join(self.lines(width, self.statement))

    def lines(self, width: int, statement: Statement, word: str = "Written") -> list[str]:
        """Return the lines that all such results have, with the table of ``statement``."""
        return [
            statement.table(width),
            "",
            f"{word}: {printable(self.output)} ({self.certified.what})",
            f"Certificate: {printable(self.certified.certificate_file)}",
            *describe_classes(self.folders),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "classes": list(self.class_names),
            "class_folders": dict(self.folders),
            "statement": self.statement.to_dict(),
            "findings": [item.to_dict() for item in self.findings],
            "report": None if self.page is None else str(self.page),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedFit(ABC):
    """A fit to the dataset ``source`` before any record is read, and the ``payment`` for it.

    ``fitted`` is the learner or the publisher. Where an ``audited`` release may be withheld, ``slack`` of the
    ``delta`` that was given is reserved for that, and ``fitted`` is calibrated to the rest
    (:mod:`~sfumato.release.audit_slack`).
    """

    source: DatasetSource
    fitted: Any
    audited: bool = True
    payment: Payment = field(default_factory=Payment)
    delta: float = 0.0
    slack: float = 0.0

    @property
    def statement(self) -> Statement:
        """What would be stated: that of ``fitted``, with the names of the classes and what is reserved."""
        stated: Statement = self.fitted.statement()
        parameters = {**stated.parameters, **self.parameters()}
        notes = (*stated.notes, *names_note(self.source))
        if self.slack > 0.0:
            parameters["delta"] = self.delta
            notes = (*notes, withholding_note(self.slack))
        if self.source.class_names is not None:
            parameters["class_names"] = list(self.source.class_names)
        return replace(stated, proven=self.proven(), parameters=parameters, notes=notes)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that the statement adds to those of ``fitted``."""
        return {}

    def proven(self, size: int = 1) -> Guarantee:
        """Return what is proven of ``size`` records that change together, with what an audit may cost."""
        own: Guarantee = self.fitted.guarantee().group(size)
        return own if self.slack == 0.0 else set_aside(own, self.group_slack(own, size), self.delta)

    def group_slack(self, guarantee: Guarantee, size: int) -> float:
        """Return the slack of ``size`` records that change together, of which ``guarantee`` is proven."""
        return self.slack

    @abstractmethod
    def shape(self) -> tuple[int, int, str]:
        """Return how many records and values of each there are, and what would be released, for people."""

    def plan(self) -> Plan:
        """Return what the release would promise and cost; nothing but names and headers was read."""
        statement, (rows, columns, what) = self.statement, self.shape()
        statement.forewarn()
        return Plan(
            source=str(self.source.path),
            rows=rows,
            columns=columns,
            statement=statement,
            grouped=groups_of(self.proven),
            expected=(),
            cost=cost_of(statement, self.payment),
            what=what,
        )


class FittedKind(Kind[Spending]):
    """One fit of what was ``opened``, which appears at ``target``; ``output`` is the certified file of it."""

    findings: tuple[Finding, ...] = ()

    def __init__(self, opened: OpenedFit, target: Path, output: Path) -> None:
        self._target, self.output, self.name, self.price = target, output, target.name, opened.statement
        randomness: Randomness | None = opened.fitted.randomness
        self.reproducible = randomness is not None and randomness.reproducible
        self.checkpoint = None if self.price.proven.proves_nothing else Checkpoint(target)

    @property
    def begun(self) -> bool:
        """Whether a run was interrupted that this one resumes; its output may stand already."""
        return self.checkpoint is not None and self.checkpoint.exists


def write_owner_report(
    page: Path, title: str, entry: Callable[[], Entry], target: Path, report: Report
) -> None:
    """Write ``page``, which its owner alone may read, about the release at ``target``."""
    report("writing the report", None)
    lines = [f"sfumato verify {target.name}", f"# Sfumato {sfumato.__version__}"]
    try:
        write_report([entry()], page, private=True, title=title, reproduce=lines)
    except BadInput as error:
        raise error.at(f"{target.name} was written, and its report was not") from None


def check_places(
    source: Path, output: Path, page: Path | None, checkpoint: Path | None, *, begun: bool = False
) -> None:
    """Refuse places that cannot be written, or of which one would be inside another.

    The report and the checkpoint are private: neither may be inside the output. The folder of a run that was
    ``begun`` before may exist.
    """
    check_apart(source, output)
    if is_archive(output):
        check_output(output, [source])
    elif not begun:
        check_new_folder(output)
    inside, given = output.resolve(), source.resolve()
    if page is not None:
        check_page(source, output, page)
    if checkpoint is not None:
        if checkpoint.is_dir():
            raise BadInput(f"`checkpoint` {checkpoint} is a folder: name a file.", parameter="checkpoint")
        for private in (checkpoint, coins_file(checkpoint)):
            _private("checkpoint", private, inside, given)
            if page is not None and page.resolve() == private.resolve():
                raise BadInput(
                    f"`report` {page} and `checkpoint` {checkpoint} would be one file; name two.",
                    parameter="report",
                )


def coins_file(checkpoint: Path) -> Path:
    """Return the file beside ``checkpoint`` that keeps which records are left out of a fit."""
    return checkpoint.with_name(checkpoint.name + ".coins")


def check_apart(source: Path, output: Path) -> None:
    """Refuse an output that is the input, or of which one would be inside the other."""
    inside, given = output.resolve(), source.resolve()
    if inside == given or inside.is_relative_to(given) or given.is_relative_to(inside):
        raise BadInput(f"the output {output} and {source} lie in one another; choose another output.")


def check_new_folder(output: Path) -> None:
    """Refuse a folder that exists and is not empty, or cannot be written."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        fault = "holds files already" if output.is_dir() else "exists and is not a folder"
        raise BadInput(f"{output} {fault}; choose another output, or remove it first.")
    check_output(output.with_name(output.name + ".folder"), [])


def check_page(source: Path, output: Path, page: Path) -> None:
    """Refuse a report that is no HTML file, or would be inside the input or the output."""
    if page.suffix != ".html":
        raise BadInput(f"`report` {page.name} must name an .html file.", parameter="report")
    _private("report", page, output.resolve(), source.resolve())


def _private(parameter: str, path: Path, output: Path, source: Path) -> None:
    place = path.resolve()
    if place in (output, certificate_file(output)) or place.is_relative_to(output):
        raise BadInput(
            f"`{parameter}` {path} is private, and would be published with {output.name}.",
            parameter=parameter,
        )
    if place == source or place.is_relative_to(source):
        raise BadInput(
            f"`{parameter}` {path} would be inside the input {source.name}; choose another place.",
            parameter=parameter,
        )
    check_output(path, [])
