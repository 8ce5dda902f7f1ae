"""Files of records on their way to be released: arrays and tables, and what is asked of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io import Schema, TableSource, kind_of, open_array
from sfumato.mechanisms import Mechanism
from sfumato.mechanisms.transforms import RandomProjection, Transform
from sfumato.noise import Keyed
from sfumato.privacy import Unit
from sfumato.release.array_release import ArrayFile
from sfumato.release.combined_statement import DECLARED_DISJOINT
from sfumato.release.protected_file import Report, silent
from sfumato.release.source_file import SourceFile
from sfumato.release.table_release import TableFile

__all__ = ["RecordFiles"]


@dataclass(frozen=True)
class RecordFiles:
    """A mechanism for records, and where they stand: in an array, which ``then`` is applied to, or a table.

    ``array`` names one of several in an archive; ``schema`` declares a table. ``disjoint`` declares that no
    record is in two files of a folder, ``public_names`` that the names of arrays in an archive are public.
    """

    records = True

    mechanism: Mechanism
    array: str | None = None
    schema: Schema | None = None
    then: Transform | None = None
    bounds_from_data: bool = False
    disjoint: bool = False
    public_names: bool = False

    @property
    def apart(self) -> str | None:
        """Why no unit is in two files of a folder; None where a record may be in all of them."""
        return DECLARED_DISJOINT if self.disjoint else None

    @property
    def of_folders(self) -> Unit | None:
        """The headline of a folder is that of its files."""
        return None

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw the noise again."""
        return self.mechanism.reproducible

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that the noise is drawn from, if it is."""
        return self.mechanism.keyed

    @property
    def draws_noise(self) -> bool:
        """Whether there is any randomness in a release; a projection has that of the noise inside it."""
        inside = isinstance(self.mechanism, RandomProjection)
        return inside or "randomness" in self.mechanism.get_params(deep=False)

    def keyed_by(self, noise: Keyed) -> RecordFiles:
        """The same with noise from a secret."""
        parameters = self.mechanism.get_params(deep=False)
        if "randomness" not in parameters:
            raise BadInput(
                f"the noise of {type(self.mechanism).__name__} cannot be keyed, so it is for no request and "
                "no cluster, where the same work may be done twice.",
                parameter="request",
            )
        return replace(self, mechanism=type(self.mechanism)(**(parameters | {"randomness": noise})))

    def open(
        self, path: Path, name: str | None = None, part: range | None = None, report: Report = silent
    ) -> SourceFile:
        """The file at ``path``, or a ``part`` of it (see :mod:`sfumato.io.file_splits`).

        ``name``, its name in a folder, keeps the keyed noise of many files apart.
        """
        mechanism = self.mechanism
        if name is not None and mechanism.keyed is not None:
            mechanism = self.keyed_by(mechanism.keyed.part(ascii(name))).mechanism
        kind = kind_of(path)
        if kind == "array":
            if self.schema is not None:
                raise BadInput(
                    "`schema` declares a table; for an array give `clip` or `bounds`.", parameter="schema"
                )
            return ArrayFile(
                open_array(path, self.array),
                mechanism,
                named=self.public_names or self.array is not None,
                public_names=self.public_names,
                then=self.then,
                bounds_from_data=self.bounds_from_data,
                rows=part,
                report=report,
            )
        if kind != "table":
            raise BadInput(f"{path.name} holds no records; release pictures and sounds by themselves.")
        for option, given in (
            ("array", self.array is not None),
            ("then", self.then is not None),
            ("bounds_from_data", self.bounds_from_data),
        ):
            if given:
                raise BadInput(
                    f"`{option}` is for .npy and .npz files, and {path.name} is a table.", parameter=option
                )
        if self.schema is None:
            raise BadInput(
                "a table needs `schema`, which declares the bounds or the categories of its columns.",
                parameter="schema",
            )
        return TableFile(TableSource(path, self.schema, groups=part), mechanism)
