"""Adam on noisy gradients, with the noise's share of the second moment taken out where that is asked.

Adam divides by the root of a running mean of squared gradients. Noise of variance s² in every coordinate adds
s² to that mean, so that all coordinates look alike and Adam turns into gradient descent. The variance is
public; its own running mean can be subtracted (Tang, Shpilevskiy & Lécuyer 2024, "DP-AdamBC"). This is the
baseline *DPAdam* of CompactDP's Table 4.

**Guarantee.** That of the noisy gradients, which are all it sees: Adam is post-processing of them, and of the
public variance of their noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import positive, share, shown

__all__ = ["PrivateAdam"]


class PrivateAdam:
    """Steps of size ``pace`` for ``parameters``, from noisy gradients and the variance of their noise.

    With ``unbiased`` the noise's part of the second moment is subtracted; what is left is at least
    ``floor``² times that part, since an estimate from few noisy steps may fall below 0.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        *,
        pace: float = 1e-2,
        betas: tuple[float, float] = (0.9, 0.999),
        unbiased: bool = False,
        floor: float = 0.3,
        least: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.pace, self.floor, self.least = (
            positive("pace", pace),
            positive("floor", floor),
            positive("least", least),
        )
        self.betas = (share("betas", betas[0]), share("betas", betas[1]))
        if max(self.betas) >= 1.0:
            raise BadInput(f"`betas` were {shown(betas)}: each must be below 1.", parameter="betas")
        self.unbiased = bool(unbiased)
        self._first = [torch.zeros_like(part, dtype=torch.float64) for part in self.parameters]
        self._second = [torch.zeros_like(part, dtype=torch.float64) for part in self.parameters]
        self._noise, self._steps = 0.0, 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], variance: float) -> None:
        """Move each parameter by its noisy gradient, each coordinate of which has noise of ``variance``."""
        slow, slower = self.betas
        self._steps += 1
        self._noise = slower * self._noise + (1.0 - slower) * variance
        begun_first, begun_second = 1.0 - slow**self._steps, 1.0 - slower**self._steps
        noise = self._noise / begun_second
        for part, gradient, first, second in zip(
            self.parameters, gradients, self._first, self._second, strict=True
        ):
            found = gradient.double()
            first.mul_(slow).add_(found, alpha=1.0 - slow)
            second.mul_(slower).addcmul_(found, found, value=1.0 - slower)
            size = second / begun_second
            if self.unbiased:
                size = (size - noise).clamp_min(self.floor**2 * noise)
            move = (first / begun_first) / (size.sqrt() + self.least)
            part.sub_((self.pace * move).to(part))
