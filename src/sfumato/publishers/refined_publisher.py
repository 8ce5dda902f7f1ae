"""Certified pictures made smoother by a generator that has seen certified pictures only.

A certified publisher reads the private records and publishes a *pool*; another publisher is fitted to the
pool, as if that were the data, and what it publishes is handed over.

**Guarantee.** That of the certified publisher, unchanged: the second publisher receives the pool, public
parameters and randomness of its own, and nothing else, so all it does is post-processing, whatever it would
promise, or not promise, about data of its own.

**Measured**, MNIST at ε = 1, four minutes of training on a pool of 10,000, one run each, validated on
training pictures that were not fitted, before covariances were smoothed: strokes hang together more (1.4
connected pieces a picture instead of 1.9) at the same accuracy (93.1% after 93.2%) with 32 latent dimensions;
with 10 of them digits are smooth (1.1 pieces) and accuracy falls to 89.6%. Pictures are softer than real ones
either way, and their Fréchet distance is larger, so nothing is refined unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from sfumato.errors import BadInput
from sfumato.mechanisms.release_value import Release
from sfumato.privacy import Guarantee, Statement
from sfumato.publishers.certified_publisher import CertifiedPublisher
from sfumato.publishers.publisher import Progress, Publisher, whole

__all__ = ["RefinedPublisher"]

_NOTE = "refined by a generator trained on published pictures only: post-processing, nothing more is spent"
# Of the work of a fit that the certified publisher's part takes.
_FIRST = 0.05
# Ten latent dimensions, as for real pictures, lose what tells classes apart.
_LATENT = 32


class RefinedPublisher(Publisher):
    """Publishes what a publisher made by ``by()`` makes of ``pool`` pictures that ``base`` published.

    Without ``by``, a ``CurvaturePublisher`` with a ``time_budget`` in seconds, which needs torch. Without
    ``pool``, as many pictures as ``base`` publishes by itself, or as ``by()`` needs. At most as many can
    be published as were in the pool if ``by()`` is one-to-one.
    """

    def __init__(
        self,
        base: CertifiedPublisher,
        by: Callable[[], Publisher] | None = None,
        *,
        pool: int | None = None,
        time_budget: float = 300.0,
    ) -> None:
        if not isinstance(base, CertifiedPublisher):
            raise BadInput(
                f"`base` was a {type(base).__name__}: a CertifiedPublisher is needed.", parameter="base"
            )
        self.base = base
        self.pool = None if pool is None else whole("pool", pool, 2)
        self.refiner = _curvature(base.top, time_budget) if by is None else by()
        if not isinstance(self.refiner, Publisher):
            raise BadInput(f"by() gave a {type(self.refiner).__name__}: a publisher is needed.")
        # What a second publisher would refuse to learn from is known before anything is spent.
        self._fewest = max(getattr(self.refiner, name, 2) for name in ("centres", "clusters"))
        if self.pool is not None and self.pool < self._fewest:
            raise BadInput(
                f"`pool` was {pool}: {type(self.refiner).__name__} needs {self._fewest} pictures or more.",
                parameter="pool",
            )
        self.randomness = base.randomness
        self._fitted = False

    def guarantee(self) -> Guarantee:
        """The guarantee of ``base``."""
        return self.base.guarantee()

    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Spend the guarantee of ``base`` on pictures ``X`` and labels ``y``; train on its pool alone."""
        tell = report or (lambda stage, share, facts: None)
        self._fitted = False
        self.base.fit(X, y, report=lambda stage, share, facts: tell(stage, _FIRST * share, facts))
        pool = self.base.publish(self.pool).value
        if len(pool[1]) < self._fewest:
            pool = self.base.publish(self._fewest).value  # more pictures cost nothing
        self.refiner.fit(
            *pool,
            report=lambda stage, share, facts: tell(stage, _FIRST + (1.0 - _FIRST) * share, facts),
        )
        self._fitted = True
        return self

    def publish(self, n: int | None = None) -> Release:
        """``n`` refined pictures and their labels, without ``n`` as many as the second publisher says."""
        if not self._fitted:
            raise BadInput("nothing has been fitted: call fit(X, y) before publish(n).")
        return self._release(*self.refiner.publish(n).value)

    def parameters(self) -> Mapping[str, Any]:
        """Those of ``base``, the size of the pool, and the name and parameters of the second publisher."""
        return {
            **self.base.parameters(),
            "pool": self.pool,
            "refined by": type(self.refiner).__name__,
            **{f"refined {name}": value for name, value in self.refiner.parameters().items()},
        }

    def statement(self) -> Statement:
        """With a note that refining is post-processing."""
        statement = super().statement()
        return replace(statement, notes=(*statement.notes, _NOTE))


def _curvature(top: float, seconds: float) -> Publisher:
    try:
        from sfumato.publishers.curvature_publisher import CurvaturePublisher
    except ImportError:
        raise BadInput(
            "refining by a curvature publisher needs torch: pip install 'sfumato[learn]'."
        ) from None
    made: Publisher = CurvaturePublisher(latent=_LATENT, time_budget=seconds, top=top)
    return made
