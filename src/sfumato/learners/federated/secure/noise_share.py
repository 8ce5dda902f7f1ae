"""Central noise without a trusted server: every client adds a share of it, and only the sum is seen.

A client's vector is clipped to an L2 ball, put on the grid, and real Gaussian noise of deviation
σ/√``honest``, rounded to the grid, is added in integers before masking.

**Guarantee.** Let h = ``honest``, and let at least h clients that keep their noise to themselves arrive;
which of them must not depend on vectors or noise. Whoever sees the sum, and all of the other clients, faces
the Gaussian mechanism of deviation σ on the clipped vectors of the honest clients, with slack 10⁻³⁰⁰. That
the sum is all they see is the secure sum's promise, and computational like it. With fewer honest clients,
h′ < h, the deviation is σ√(h′/h) only; a single one among colluding others has nothing but its own share.

*Adversary.* The server, together with c clients that pool what they know. They know c of the shares and can
subtract them, so of t clients that arrive t − c keep theirs: h ≤ t − c is needed, t being the threshold.
Every client is given the result, and knows its own share: c is 1 even if nobody colludes, so terms with
h > t − 1 are refused. With h = t − c the guarantee holds against every c clients and the server.

Proof. Work in steps of the grid, with s the deviation of a share, and in one coordinate.

1. Let f be the density of N(0, s²) plus a uniform number in [−½, ½]: a rounded share is k with probability
   f(k). The Fourier transform is f̂(ξ) = exp(−2π²s²ξ²)·sin(πξ)/(πξ). By Poisson's summation formula the sum R
   of h rounded shares has the characteristic function (Σₘ f̂(θ+m))ʰ, |θ| ≤ ½.
2. Let R′ be the rounding of N(0, hs²) + U₁ + … + Uₕ₋₁ with independent uniform Uᵢ in [−½, ½]. Its probability
   of k is the h-fold convolution of f at k, with characteristic function Σₘ f̂(θ+m)ʰ. An integer plus R′ is
   post-processing of that integer plus N(0, hs²), the Gaussian mechanism of deviation σ.
3. As Σ over m ≠ 0 of |f̂(θ+m)| is at most ρ = 2.1·exp(−π²s²/2) for s ≥ 1, the two functions differ by at most
   η = (h(1+ρ)ʰ + 1)ρ at every θ, and so do the probabilities of every k (:func:`gap`).
4. Beyond K = h/2 + 60s√h both have mass at most 2e⁻¹⁸⁰⁰. So R and R′ differ in total variation by at most
   (K+1)η + 2e⁻¹⁸⁰⁰, and d coordinates by at most d times that; call it τ. More than h honest clients add
   noise that is independent of the rest.
5. A client refuses to send an integer beyond the limit of the ring. The limit leaves room for 60s, so that
   happens with probability at most 2d·e⁻¹⁸⁰⁰ a client; add it, for all clients, to τ.
6. For ε ≤ 400 the hockey-stick divergence grows by at most (1 + e⁴⁰⁰)τ. Beyond, it is at most that at 400,
   where the Gaussian's own is below Φ(4 − 50) < 10⁻⁴⁰⁰, as σ is at least an eighth of the sensitivity. The
   grid has s ≥ 2¹² steps; already for s ≥ 16, with s ≤ 2⁴⁰, h ≤ 10⁴ and d ≤ 2⁴⁰, τ < e⁻¹¹⁸⁰: all is below
   10⁻³⁰⁰.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import GaussianDpEvent
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_messages import SecureSum
from sfumato.mechanisms import known_neighbours, positive
from sfumato.noise import NORMAL, Keyed, Randomness, Rounded, Secure, grid_step, onto_grid
from sfumato.privacy import FEDERATED, Guarantee, Neighbours, Unit

__all__ = ["NoiseShare"]

_SLACK = 1e-300
_SMALLEST_MULTIPLIER = 0.125
_ROOM = 60.0


def share_of(sigma: float, honest: int) -> float:
    """Return the deviation of each client's noise, so that ``honest`` of them together reach ``sigma``."""
    if isinstance(honest, bool) or not isinstance(honest, int) or honest < 1:
        raise BadInput(
            f"`honest` was {honest!r}: at least one client must keep its noise to itself.", parameter="honest"
        )
    # Rounded up, by more than the roundings of a root, a quotient and a product can take away.
    return positive("sigma", sigma) / math.sqrt(honest) * (1.0 + 2.0**-50)


def gap(steps: float, honest: int) -> float:
    """Return η of the proof: a bound on |P(integer) − P(one rounded Gaussian sum is that integer)|."""
    rho = 2.1 * math.exp(-(math.pi**2) * steps**2 / 2.0)
    return float((honest * (1.0 + rho) ** honest + 1.0) * rho)


@dataclass(frozen=True, kw_only=True)
class NoiseShare:
    """Vectors clipped to L2 norm ``clip``, with noise of deviation ``sigma`` on their sum; all of it public.

    ``honest`` is how many of the clients that arrive keep their noise to themselves: threshold − c if c
    clients may collude with each other and the server, and at most threshold − 1, since every client knows
    its own noise. Who arrives is seen, so neighbours are ``replace`` (sensitivity 2·``clip``) or ``zero-out``
    (``clip``).

    A vector that is not finite counts as zeros: a client that refused it would tell of it.
    """

    clip: float
    sigma: float
    honest: int
    neighbours: str = FEDERATED.neighbours

    def __post_init__(self) -> None:
        share_of(self.sigma, self.honest)
        positive("clip", self.clip)
        if self.multiplier < _SMALLEST_MULTIPLIER:
            raise BadInput(
                f"noise of deviation {self.sigma:g} for clip {self.clip:g} is {self.multiplier:g} times the "
                f"sensitivity: shares are proven from {_SMALLEST_MULTIPLIER:g} times on."
            )

    @property
    def multiplier(self) -> float:
        """Deviation over sensitivity."""
        replaced = known_neighbours(self.neighbours) is Neighbours.REPLACE
        return self.sigma / (2.0 * self.clip if replaced else self.clip)

    def guarantee(self) -> Guarantee:
        """Return that of one sum for one client, under the conditions that the module names."""
        return Guarantee(
            unit=Unit.parse("client"),
            neighbours=known_neighbours(self.neighbours),
            event=GaussianDpEvent(self.multiplier),
            theorem=f"Gaussian mechanism on a secure sum, by {self.honest} honest clients; computational",
            slack=_SLACK,
        )

    def check(self, terms: SecureSum) -> None:
        """Refuse ``terms`` under which the noise would not be what it should be, or would not fit."""
        if self.honest >= terms.threshold:
            raise BadInput(
                f"noise was counted on from {self.honest} honest clients, and only {terms.threshold} need to "
                f"stay, each of whom knows its own noise: honest may be {terms.threshold - 1} at most."
            )
        step = self.step(terms)
        if self.clip / step + _ROOM * share_of(self.sigma, self.honest) / step + 1.0 > terms.limit:
            raise BadInput(
                f"a ring of {terms.bits} bits has no room for the noise of {terms.clients} clients: take one "
                "of 64 bits."
            )

    def step(self, terms: SecureSum) -> float:
        """Return the step of the public grid."""
        return grid_step(share_of(self.sigma, self.honest), self.clip / math.sqrt(terms.length))

    def integers(
        self, values: ArrayLike, terms: SecureSum, randomness: Randomness | None = None
    ) -> NDArray[np.int64]:
        """Return one client's ``terms.length`` numbers: clipped, on the grid, with its share of noise."""
        if isinstance(randomness, Keyed):
            # Another vector under the same noise would give away by how much they differ.
            raise BadInput("shares of noise are drawn afresh: keyed noise belongs to the content of a unit.")
        self.check(terms)
        given = np.asarray(values, dtype=np.float64)
        if given.shape != (terms.length,):
            raise BadInput(f"an array of shape {given.shape} was to be summed: {terms.length} numbers are.")
        if not np.isfinite(given).all():
            given = np.zeros_like(given)
        stream = (Secure() if randomness is None else randomness).stream(b"share of noise")
        step = self.step(terms)
        cells = onto_grid(given[None], self.clip, "l2", step)[0]
        noise = Rounded(NORMAL, [share_of(self.sigma, self.honest) / step])
        noisy: NDArray[np.float64] = cells + noise.draw(stream, given.size)[0]
        return noisy.astype(np.int64)

    def values(self, total: NDArray[np.int64], terms: SecureSum) -> NDArray[np.float64]:
        """Return the values that a sum of such integers stands for."""
        return total.astype(np.float64) * self.step(terms)
