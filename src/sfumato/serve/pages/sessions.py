"""Who is signed in: a signed cookie that names a key, never the key's secret.

The cookie says which key of which tenant was shown and until when that counts; its signature comes from the
service's own key ring, so every process of the service reads it. The key itself is looked up again at each
request: one that was revoked or has expired opens nothing any more. A session that was signed out is noted
in a folder that all processes share, until its cookie would have expired.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sfumato.serve.auth.callers import Caller

__all__ = ["LIFETIME_SECONDS", "Session", "Sessions"]

#: After so long one signs in again.
LIFETIME_SECONDS = 8 * 3600

_VALUE = re.compile(r"(t[0-9a-f]{16})\.([0-9a-f]{16})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})")
_MARK = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Session:
    """What a cookie says: a tenant's id, the id of a key, and ``proof``, what forms of it must bring."""

    tenant: str
    key_id: str
    proof: str


class Sessions:
    """Makes and reads cookies with a key derived from ``secret``; those that ended are noted in ``ended``.

    ``clock`` tells seconds of the epoch.
    """

    def __init__(self, secret: bytes, ended: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = hmac.digest(secret, b"sfumato dashboard sessions", hashlib.sha256)
        self._ended, self._clock = ended, clock

    def opened(self, caller: Caller) -> str:
        """The cookie of somebody who has shown the key of ``caller``."""
        until = int(self._clock()) + LIFETIME_SECONDS
        body = f"{caller.tenant}.{caller.key_id}.{until}.{secrets.token_hex(16)}"
        return f"{body}.{self._signature('session', body)}"

    def read(self, cookie: str | None) -> Session | None:
        """The session of ``cookie``; None of one that was not made here, was altered or is too old."""
        found = _VALUE.fullmatch(cookie or "")
        if found is None:
            return None
        tenant, key_id, until, _, signature = found.groups()
        body = found[0].rpartition(".")[0]
        genuine = hmac.compare_digest(self._signature("session", body), signature)
        if not genuine or int(until) <= self._clock() or self._note(body).exists():
            return None
        return Session(tenant, key_id, self._signature("form", body))

    def end(self, cookie: str | None) -> None:
        """Let ``cookie`` open nothing any more, in no process; remove notes of cookies that have expired."""
        if self.read(cookie) is None:
            return
        self._ended.mkdir(mode=0o700, exist_ok=True)
        for note in self._ended.iterdir():
            with suppress(FileNotFoundError):
                if note.stat().st_mtime < time.time() - LIFETIME_SECONDS:
                    note.unlink()
        self._note(str(cookie).rpartition(".")[0]).touch(mode=0o600)

    def _note(self, body: str) -> Path:
        return self._ended / self._signature("ended", body)

    def mark(self) -> str:
        """A cookie for those who are not signed in: it ties the form for signing in to their browser."""
        return secrets.token_hex(16)

    def proof_of_mark(self, mark: str | None) -> str | None:
        """What the form for signing in must bring where the browser brings ``mark``."""
        return self._signature("sign in", mark) if mark is not None and _MARK.fullmatch(mark) else None

    def _signature(self, purpose: str, body: str) -> str:
        return hmac.new(self._secret, f"{purpose}\0{body}".encode(), hashlib.sha256).hexdigest()
