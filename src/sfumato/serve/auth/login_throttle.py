"""A limit on wrong keys from one site: nobody can try many of them.

Each site has a bucket of wrong guesses that fills up again with time, and only wrong keys empty it. Those who
share a site with somebody who guesses have to wait too. The buckets live in the memory of one process, and
there are at most so many of them: forgotten first is the site whose last wrong guess is the longest ago.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sfumato.errors import BadInput
from sfumato.serve.auth.addresses import site_of

__all__ = ["Guessing"]


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Guessing:
    """At most ``guesses`` wrong keys at once from one site, and one more every ``seconds`` / ``guesses``.

    A site is an IPv4 address or an IPv6 /64. ``clock`` tells seconds that never go back.
    """

    def __init__(
        self,
        *,
        guesses: int = 10,
        seconds: float = 60.0,
        sites: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if guesses < 1 or not seconds > 0 or sites < 1:
            raise BadInput("a limit on guessing needs one guess, one site and some time, each or more.")
        self._guesses = guesses
        self._rate = guesses / seconds
        self._sites = sites
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str | None) -> float:
        """How long no key from ``address`` is to be looked at; 0 where one may be, at once."""
        site = site_of(address)
        with self._lock:
            bucket = self._buckets.get(site)
            left = self._guesses if bucket is None else self._left(bucket)
            return max(0.0, (1.0 - left) / self._rate)

    def failed(self, address: str | None) -> None:
        """Count a wrong key from ``address``."""
        site = site_of(address)
        with self._lock:
            now = self._clock()
            bucket = self._buckets.pop(site, None) or _Bucket(self._guesses, now)
            # Below zero, for those who guess many at once; not for ever, for those who share an address.
            left = max(self._left(bucket) - 1.0, -float(self._guesses))
            self._buckets[site] = _Bucket(left, now)
            if len(self._buckets) > self._sites:
                self._buckets.popitem(last=False)

    @property
    def remembered(self) -> int:
        """How many sites there are buckets of."""
        return len(self._buckets)

    def _left(self, bucket: _Bucket) -> float:
        return min(float(self._guesses), bucket.left + (self._clock() - bucket.at) * self._rate)
