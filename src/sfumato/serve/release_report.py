"""The report of a release: its three columns and the budget that paid for it, as one page of HTML."""

from __future__ import annotations

from dataclasses import replace

import sfumato
from sfumato.ledger import Ledger
from sfumato.privacy import Statement
from sfumato.serve.release_store import Release

__all__ = ["release_page"]


def release_page(release: Release, ledger: Ledger, name: str) -> bytes:
    """The page of ``release``, whose dataset ``ledger`` calls ``name``, as ``sfumato report`` writes it."""
    from sfumato.reports import Budget, Entry
    from sfumato.reports.page import render_report

    provenance = {"file": release.name, "sha256": release.sha256, "made": release.created}
    entry = Entry(release.name, Statement.from_dict(release.statement), provenance=provenance)
    balance = replace(ledger.balance(name), dataset=release.dataset)
    return render_report(
        [entry],
        title=f"Privacy report of {release.name}",
        budget=Budget(balance, tuple(ledger.history(name))),
        reproduce=[f"sfumato verify {release.name}", f"# Sfumato {sfumato.__version__}"],
    ).encode()
