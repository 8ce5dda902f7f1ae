"""Publish pictures drawn from a differentially private diffusion model, DPDM (Dockhorn et al. 2022).

A small class-conditional U-Net learns to denoise pictures (``diffusion_model``) by noisy gradients of Poisson
samples, with several draws of diffusion noise an example; the mean of its weights over late steps draws new
pictures.

**Guarantee.** That of DP-SGD: ``steps`` compositions of the Gaussian with ``multiplier``, Poisson-sampled at
``rate``, for one record (a picture with its label) under zero-out neighbours, whatever ``multiplicity`` K
is. In a step with parameters θ, example i has the one gradient gᵢ = ∇θ (1/K) Σₖ ℓ(θ; xᵢ, yᵢ, σᵢₖ, nᵢₖ); it
is clipped *after* the mean over its K draws and enters the noisy sum once. Take all levels σ and noises n of
the step as given: they are drawn independently of the data. Then gᵢ is a function of θ and of example i
alone, and a null record in its place moves the sum by clip(gᵢ), whose length is at most the clipping norm
for every K. That is the sensitivity that the Gaussian noise was set for, and it holds given any values of
the draws, so it holds for their mixture; K only makes clip(gᵢ) vary less. Hence the draws need not be
secret, nor as good as the noise of the sums, and come from a generator of torch's that a stream has seeded.
Adam, the averaged weights, the course of the learning rate and every picture drawn later are post-processing
of noisy sums.

Public are all parameters, the shape and range of pictures, the classes and the number of records. How often
each class occurs is private, so labels of published pictures are drawn uniformly over the declared classes.

The multiplier 0.7 is no privacy by itself; what it proves at δ = 1e-5 depends on rate and steps:

=========================  =====  =====  =====  =====
rate                       0.007  0.013  0.027  0.054
=========================  =====  =====  =====  =====
ε after 300 steps          2.36   3.79   7.11   13.75
ε after 1000 steps         3.35   5.92   12.38  26.34
=========================  =====  =====  =====  =====

as ``DPSGD(0.7, rate, steps).guarantee(1e-5).epsilon()`` gives them.

**Edge cases.** Pictures are cut to the declared range. NaN, labels outside the declared classes, wrong shapes
and pictures with fewer than 8 pixels a side are refused before any randomness is drawn. A declared class
without records is published like all others, and looks like noise. No loss is reported: a loss on private
data is private.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato.errors import BadInput
from sfumato.mechanisms import Release, positive
from sfumato.noise import Randomness, uniform_integers
from sfumato.publishers.diffusion_model import UNet, denoising_loss, draw_noise, draw_pictures
from sfumato.publishers.publisher import Labelled, Pictures, Progress, fitted, silent, whole_number
from sfumato.publishers.trained_publisher import TrainedPublisher, example_gradients, make_generator

__all__ = ["DPDMPublisher"]

# The mean of the weights over steps, for pictures, reaches back about this many of them.
_AVERAGED = 50
# The learning rate rises over so many steps, and falls over the last part of all steps to a part of itself.
_WARMING, _COOLING, _COOLEST = 10, 0.3, 0.1


@dataclass(eq=False)
class DPDMPublisher(TrainedPublisher):
    """Publishes pictures of ``shape`` with values from 0 to ``top`` and labels 0…``classes``−1.

    ``multiplicity`` is the number of draws of diffusion noise an example, ``width`` the channels of the
    network, ``pace`` its learning rate, ``drawing`` the steps that draw a picture; the noise has a
    ``multiplier`` of 0.7 unless that or ``epsilon`` is given. See
    :class:`~.trained_publisher.TrainedPublisher`.
    """

    _: KW_ONLY
    clip: float = 2.0
    multiplicity: int = 3
    rate: float = 0.027
    steps: int = 300
    width: int = 16
    pace: float = 1.5e-2
    drawing: int = 14

    usual_multiplier = 0.7
    fewest_pixels = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        self.multiplicity = whole_number("multiplicity", self.multiplicity, 1)
        self.pace = positive("pace", self.pace)
        self.drawing = whole_number("drawing", self.drawing, 2)
        if whole_number("width", self.width, 8) % 8:
            raise BadInput(f"`width` was {self.width!r}: a multiple of 8 is needed.", parameter="width")

    def publish(self, n: int | None = None, *, report: Progress | None = None) -> Release[Pictures]:
        """Return ``n`` new pictures of the data's range, as float32, and their labels; costs nothing more.

        Without ``n`` as many as were read. Labels are uniform over the declared classes.
        """
        network: nn.Module = fitted(self._model)
        n, name = self._number(n), f"published {self._published}".encode()
        self._published += 1
        labels = uniform_integers(self._sums.stream(name + b" labels"), self.classes, n)
        tell = report or silent
        drawn = draw_pictures(
            network,
            torch.from_numpy(labels),
            self._size,
            self.drawing,
            make_generator(self._sums.stream(name + b" pictures")),
            lambda share: tell("drawing pictures", share, {}),
        )
        pictures = drawn.permute(0, 2, 3, 1).reshape(n, *self.shape).numpy()
        values = ((pictures + np.float32(1.0)) * np.float32(self.top / 2.0)).astype(np.float32)
        return self._release(np.clip(values, 0.0, np.float32(self.top)), labels)

    def _train(self, data: Labelled, report: Progress) -> nn.Module:
        """Return a network whose weights are a mean over late steps."""
        pictures = torch.from_numpy(2.0 * data.pictures - 1.0).reshape(len(data), *self.shape[:2], -1)
        pictures, labels = pictures.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(data.labels)
        network = UNet(
            self._size, self.classes, self.width, make_generator(self._sums.stream(b"first weights"))
        ).requires_grad_(False)
        parameters, average = list(network.parameters()), copy.deepcopy(network)
        of_examples = example_gradients(network, denoising_loss)
        adam = torch.optim.Adam(parameters, betas=(0.9, 0.99))

        def gradients(taken: NDArray[np.intp], randomness: Randomness) -> Iterator[list[Tensor]]:
            draws = make_generator(randomness.stream(b"diffusion draws"))
            levels, noise = draw_noise(len(taken), self.multiplicity, self._size, draws)
            return of_examples(pictures[taken], labels[taken], levels, noise)

        def move(_: float) -> None:
            # Adam counts its steps, also where it goes on from a kept state.
            step = int(adam.state[parameters[0]]["step"]) if adam.state else 0
            left = (self.steps - step) / (_COOLING * self.steps)
            adam.param_groups[0]["lr"] = self.pace * min(1.0, (step + 1) / _WARMING, max(_COOLEST, left))
            adam.step()
            kept = min(1.0 - 1.0 / _AVERAGED, (step + 1.0) / (step + 10.0))
            for mean, now in zip(average.parameters(), parameters, strict=True):
                mean.data.lerp_(now.data, 1.0 - kept)

        self.sgd.train(
            parameters,
            len(data),
            gradients,
            move,
            self._sums,
            learning=(network, average, adam),
            # The share of steps and nothing else: losses, and how many records a step took, are private.
            report=lambda done: report("training", done, {}),
        )
        return average.eval()

    @property
    def _size(self) -> tuple[int, int, int]:
        """The shape of one picture as networks have it, channels first."""
        return (self.shape[2] if len(self.shape) == 3 else 1, self.shape[0], self.shape[1])
