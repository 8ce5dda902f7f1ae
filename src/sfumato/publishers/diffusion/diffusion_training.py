"""Training a denoiser by noisy gradients, several draws of diffusion noise an example.

**Guarantee.** That of :class:`~sfumato.learners.DPSGD`, whatever ``multiplicity`` K is. In a step with
parameters θ, example i has the one gradient gᵢ = ∇θ (1/K) Σₖ ℓ(θ; xᵢ, yᵢ, σᵢₖ, nᵢₖ); it is clipped *after*
the mean over its K draws and enters the noisy sum once. Take all levels σ and noises n of the step as given:
they are drawn independently of the data. Then gᵢ is a function of θ and of example i alone, no row of the
network meeting another, and removing the example, or a null record in its place, moves the sum by
clip(gᵢ), whose length is at most the clip for every K. That is the sensitivity that the Gaussian noise was
set for, and it holds given any values of the draws, so it holds for their mixture; K only makes clip(gᵢ)
vary less. Hence the draws need not be secret, nor as good as the noise of the sums, and come from a generator
of torch's that a stream has seeded. Adam, the averaged weights, the learning rate's course and every picture
drawn later are post-processing of noisy sums.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from sfumato.learners import DPSGD, NoisySum
from sfumato.noise import Randomness
from sfumato.publishers.diffusion.denoising import Denoiser
from sfumato.publishers.diffusion.example_gradients import ExampleGradients

__all__ = ["Training"]

# Examples that pass through the network at once; bounds memory, changes no result beyond rounding.
_AT_ONCE = 64
# The mean of the weights over steps, for pictures, reaches back about this many of them.
_AVERAGED = 50
_WARMING, _COOLING, _COOLEST = 10, 0.3, 0.1


@dataclass(frozen=True)
class Training:
    """``sgd.steps`` steps of Adam at ``pace``, each example's loss a mean over ``multiplicity`` draws."""

    sgd: DPSGD
    multiplicity: int = 3
    pace: float = 1.5e-2

    def averaged(
        self,
        network: nn.Module,
        pictures: Tensor,
        labels: Tensor,
        randomness: Randomness,
        report: Callable[[int], None] = lambda step: None,
    ) -> nn.Module:
        """Train ``network`` in place; returns a copy of it with the mean of its weights over late steps.

        ``pictures`` (n, c, h, w) lie in [−1, 1]. ``report`` is called with the number of steps done.
        """
        gradients, average = ExampleGradients(network), copy.deepcopy(network)
        adam = torch.optim.Adam(gradients.parameters, betas=(0.9, 0.99))
        noisy = self.sgd.noisy(randomness)
        draws = generator_of(randomness, b"diffusion draws")
        samples = self.sgd.samples(len(pictures), randomness.stream(b"poisson samples"))
        for step, taken in enumerate(samples):
            rows = torch.from_numpy(taken)
            self.set_gradients(gradients, network, pictures[rows], labels[rows], noisy, len(pictures), draws)
            for group in adam.param_groups:
                group["lr"] = self._pace(step)
            adam.step()
            kept = min(1.0 - 1.0 / _AVERAGED, (step + 1.0) / (step + 10.0))
            for mean, now in zip(average.parameters(), network.parameters(), strict=True):
                mean.data.lerp_(now.data, 1.0 - kept)
            report(step + 1)
        return average.eval()

    def set_gradients(
        self,
        gradients: ExampleGradients,
        network: nn.Module,
        pictures: Tensor,
        labels: Tensor,
        noisy: NoisySum,
        records: int,
        draws: Generator,
    ) -> None:
        """Give each parameter the noisy mean gradient of the ``pictures`` taken, out of ``records``."""
        denoiser, taken = Denoiser(network), len(pictures)
        for parameter in gradients.parameters:
            parameter.grad_sample = parameter.new_empty(taken, *parameter.shape)  # type: ignore[attr-defined]
        for start in range(0, taken, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, taken))

            def losses(part: slice = part) -> Tensor:
                return denoiser.losses(pictures[part], labels[part], self.multiplicity, draws)

            found = gradients(losses, part.stop - start)
            for parameter, gradient in zip(gradients.parameters, found, strict=True):
                parameter.grad_sample[part] = gradient  # type: ignore[attr-defined]
        self.sgd.set_gradients(gradients.parameters, noisy, records, taken)

    def _pace(self, step: int) -> float:
        """Rises over the first steps, falls over the last third; a public function of the step."""
        left = (self.sgd.steps - step) / (_COOLING * self.sgd.steps)
        return self.pace * min(1.0, (step + 1) / _WARMING, max(_COOLEST, left))


def generator_of(randomness: Randomness, label: bytes) -> Generator:
    """Torch's generator, seeded from a stream of ``randomness``; for draws that no proof rests on."""
    return Generator().manual_seed(randomness.stream(label).integer(64) % 2**63)
