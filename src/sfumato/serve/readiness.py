"""Whether a service could release something now: its databases, its disk, its runner, and no end in sight."""

from __future__ import annotations

import math
import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

from sfumato.errors import SfumatoError
from sfumato.ledger.ledger_errors import LedgerUnavailable
from sfumato.serve.logs import told
from sfumato.serve.registry_errors import RegistryUnavailable
from sfumato.serve.service import Service

__all__ = ["NotReady", "Readiness"]

# Anybody may ask, without a key: so the databases are asked once a second at most.
_SECONDS = 1.0
# Who asks waits no longer than this, whatever the databases are busy with; what they said last then counts
# for a while, after which they count as silent.
_PATIENCE_SECONDS = 1.0
_FRESH_SECONDS = 10.0


class NotReady(SfumatoError):
    """The service cannot release anything now."""


class _Runs(Protocol):
    @property
    def alive(self) -> bool: ...


class Readiness:
    """Asks ``service`` and, where there is one, the ``runner`` of its jobs."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._lock = threading.Lock()
        self._asked, self._trouble = -math.inf, ""
        self._asking: threading.Thread | None = None
        self.runner: _Runs | None = None
        self.draining = False

    def trouble(self) -> str:
        """What stands in the way, in a few words; empty where nothing does."""
        if self.draining:
            return "it is about to end"
        with self._lock:
            if self._asking is None and self._clock() - self._asked >= _SECONDS:
                # A daemon: a database that never answers must not keep the process from ending.
                self._asking = threading.Thread(target=self._ask, args=(self._clock(),), daemon=True)
                self._asking.start()
            asking = self._asking
        if asking is not None:
            asking.join(_PATIENCE_SECONDS)
        with self._lock:
            late = self._asking is not None and self._clock() - self._asked >= _FRESH_SECONDS
            return "its databases take too long to answer" if late else self._trouble

    def _ask(self, now: float) -> None:
        try:
            found = self._found()
        except Exception as error:
            told("unforeseen", level="error", error=error)
            found = "it cannot be told"
        with self._lock:
            self._asked, self._trouble, self._asking = now, found, None

    def require(self) -> None:
        """Raise :class:`NotReady` where something stands in the way."""
        trouble = self.trouble()
        if trouble:
            raise NotReady(f"the service is not ready: {trouble}.")

    def _found(self) -> str:
        try:
            self._service.ledger.require_answer()
        except LedgerUnavailable:
            return "its ledger does not answer"
        try:
            self._service.registry.require_answer()
        except RegistryUnavailable:
            return "its registry does not answer"
        if self.runner is not None and not self.runner.alive:
            return "nothing works on its jobs"
        return "" if self._writes() else "its disk cannot be written"

    def _writes(self) -> bool:
        place = self._service.settings.work / f"ready-{secrets.token_hex(8)}"
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                return os.write(descriptor, bytes(4096)) == 4096
            finally:
                os.close(descriptor)
                place.unlink()
        except OSError:
            return False
