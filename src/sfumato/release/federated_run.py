"""One federated run as every engine takes it, and the folder of one whose clients are processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.io.private_folder import private_folder
from sfumato.release.client_budget import ClientBudgets
from sfumato.release.federation import Federation
from sfumato.release.protected_file import Report
from sfumato.release.round_deadline import Waiting

__all__ = ["FederatedRun", "Shares", "write_records"]

#: Features and labels of every client, by name.
Shares = Mapping[str, tuple[NDArray[np.floating], NDArray[np.int64]]]


@dataclass(frozen=True, eq=False)
class FederatedRun:
    """Settled ``terms``, every client's records, what clients pay from, and how long they are waited for."""

    terms: Federation
    shares: Shares
    budgets: ClientBudgets
    waiting: Waiting
    report: Report

    @contextmanager
    def apart(self) -> Iterator[tuple[Path, dict[str, Path]]]:
        """A private folder for processes of clients, and in it the file with the records of each of them.

        The folder is gone afterwards, also where this process is killed.
        """
        with private_folder("sfumato-federation-") as folder:
            yield folder, write_records(self.shares, folder)


def write_records(shares: Shares, folder: Path) -> dict[str, Path]:
    """One .npz for each client, with its features ``X`` and labels ``y``."""
    files = {name: folder / f"{name}.npz" for name in shares}
    for name, (features, labels) in shares.items():
        np.savez(files[name], X=np.asarray(features, dtype=np.float32), y=labels)
    return files
