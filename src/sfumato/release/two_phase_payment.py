"""Files whose release is paid for in two steps: the price is set aside, and committed before drawing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sfumato.io import Schema
from sfumato.ledger import Entry
from sfumato.mechanisms import Mechanism
from sfumato.release.locations import located
from sfumato.release.media_mechanisms import MediaMechanisms
from sfumato.release.payment import HeldPayment
from sfumato.release.protected_file import Protected, Report, silent
from sfumato.release.record_files import RecordFiles
from sfumato.release.single_file import protect_file
from sfumato.release.source_opener import opener_of
from sfumato.reports import KeyRing

__all__ = ["HeldFile"]


class HeldFile:
    """The local file ``source``, which goes through ``mechanism`` to an output called ``name``, or as it is.

    Opening it reads the header and refuses what cannot be released at all; nothing is charged yet.
    """

    def __init__(
        self,
        source: Path,
        mechanism: Mechanism | MediaMechanisms,
        *,
        name: str | None = None,
        array: str | None = None,
        schema: Schema | None = None,
        report: Report = silent,
    ) -> None:
        self._name, self._report = name or source.name, report
        opener = opener_of(located(source, folder=False), mechanism, array=array, schema=schema)
        # Noise that anybody can draw again is not signed for.
        self._signed = not opener.reproducible
        self._file = (
            opener.open(source, report=report) if isinstance(opener, RecordFiles) else opener.open(source)
        )
        self._file.fits(source)

    def hold(self, payment: HeldPayment) -> Entry:
        """Set its price aside."""
        noise = payment.noise(self._file.mechanism.keyed)
        return payment.hold(self._file.statement, self._name, noise, self._file.declared)

    def protect(
        self,
        folder: Path,
        payment: HeldPayment,
        keys: KeyRing,
        room: Callable[[int], None] | None = None,
    ) -> Protected:
        """Release it into ``folder``: check all of it, find ``room``, commit the hold, draw the noise."""
        signer = keys.signing_or_new() if self._signed else None
        output = folder / self._name
        return protect_file(
            self._file, output, payment=payment, signer=signer, report=self._report, room=room
        )
