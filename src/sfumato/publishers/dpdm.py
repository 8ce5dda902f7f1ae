"""Publish pictures drawn from a differentially private diffusion model, DPDM (Dockhorn et al. 2022).

A small class-conditional U-Net learns to denoise pictures (``diffusion_model``) by noisy gradients of Poisson
samples, with several draws of diffusion noise an example (``diffusion_training``); the mean of its weights
over late steps draws new pictures.

**Guarantee.** That of DP-SGD: ``steps`` compositions of the Gaussian with ``multiplier``, Poisson-sampled at
``rate``, for one record (a picture with its label) under zero-out neighbours; noise multiplicity costs
nothing (proof in ``diffusion_training``). Drawing is post-processing and free. Public are all parameters, the
shape and range of pictures, the classes and the number of records. How often each class occurs is private, so
labels of published pictures are drawn uniformly over the declared classes.

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

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.mechanisms import Release, delta_between, positive
from sfumato.noise import NoisedSums, Randomness, uniform_integers
from sfumato.privacy import DELTA, Guarantee
from sfumato.publishers.diffusion.diffusion_model import Denoiser, Sampler, UNet
from sfumato.publishers.diffusion.diffusion_training import Training
from sfumato.publishers.noisy_steps import generator_of
from sfumato.publishers.publisher import (
    Labelled,
    Pictures,
    Progress,
    Publisher,
    fitted,
    one_noise,
    picture_shape,
    published_randomness,
    silent,
    whole_number,
)

__all__ = ["DPDMPublisher"]

_MULTIPLIER = 0.7


class DPDMPublisher(Publisher):
    """Publishes pictures of ``shape`` with values from 0 to ``top`` and labels 0…``classes``−1.

    Each of ``steps`` steps takes every record with probability ``rate``, clips gradients to ``clip`` and adds
    noise of ``multiplier`` (0.7 unless given) times that; with ``epsilon`` instead, the least multiplier that
    proves it at ``delta``. ``multiplicity`` is the number of draws of diffusion noise an example, ``width``
    the channels of the network, ``pace`` its learning rate, ``drawing`` the steps that draw a picture. All
    parameters are public.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = DELTA,
        multiplier: float | None = None,
        clip: float = 2.0,
        multiplicity: int = 3,
        rate: float = 0.027,
        steps: int = 300,
        shape: tuple[int, ...] = (28, 28),
        classes: int = 10,
        top: float = 255.0,
        width: int = 16,
        pace: float = 1.5e-2,
        drawing: int = 14,
        randomness: Randomness | None = None,
    ) -> None:
        one_noise(epsilon, multiplier)
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon)
        self.delta = delta_between(delta)
        clip, steps = positive("clip", clip), whole_number("steps", steps, 1)
        if self.epsilon is None:
            chosen = positive("multiplier", _MULTIPLIER if multiplier is None else multiplier)
            sgd = DPSGD(chosen, rate, steps, clip)
        else:
            sgd = DPSGD.calibrated(self.epsilon, self.delta, rate=rate, steps=steps, clip=clip)
        self.training = Training(sgd, whole_number("multiplicity", multiplicity, 1), positive("pace", pace))
        self.shape = picture_shape(shape, 8)
        self.classes = whole_number("classes", classes, 2)
        self.top = positive("top", top)
        self.width = whole_number("width", width, 8)
        if self.width % 8:
            raise BadInput(f"`width` was {width!r}: a multiple of 8 is needed.", parameter="width")
        self.sampler = Sampler(whole_number("drawing", drawing, 2))
        self.randomness = published_randomness(randomness)
        self._denoiser: Denoiser | None = None

    def guarantee(self) -> Guarantee:
        """Return ε at δ for one record, known before ``fit``; ``publish`` adds nothing to it."""
        return self.training.sgd.guarantee(self.delta)

    def fit(self, X: Any, y: Any, *, report: Progress | None = None, sums: NoisedSums | None = None) -> Self:
        """Spend the guarantee on pictures ``X`` (n, *shape) and labels ``y`` (n,); each call spends it.

        ``sums`` draws the noised sums, or returns those that were drawn before.
        """
        self._sums = sums or NoisedSums(self.randomness)
        data = Labelled.checked(X, y, top=self.top, shape=self.shape, classes=self.classes)
        pictures = torch.from_numpy(2.0 * data.pictures - 1.0).reshape(len(data), *self.shape[:2], -1)
        network = UNet(
            self._size, self.classes, self.width, generator_of(self._sums.stream(b"first weights"))
        )
        steps, tell = self.training.sgd.steps, report or silent

        def done(step: int) -> None:
            # The step and nothing else: losses, and how many records a step took, are private.
            tell("training", step / steps, {"step": float(step)})

        average = self.training.averaged(
            network,
            pictures.permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(data.labels),
            self._sums,
            done,
        )
        self._denoiser = Denoiser(average)
        # Known to everybody under zero-out neighbours.
        self._records, self._published = len(data), 0
        return self

    def publish(self, n: int | None = None, *, report: Progress | None = None) -> Release[Pictures]:
        """Return ``n`` new pictures of the data's range, as float32, and their labels; costs nothing more.

        Without ``n`` as many as were read. Labels are uniform over the declared classes.
        """
        denoiser, n = fitted(self._denoiser), self._number(n)
        name = f"published {self._published}".encode()
        self._published += 1
        labels = uniform_integers(self._sums.stream(name + b" labels"), self.classes, n)
        tell = report or silent
        drawn = self.sampler.draw(
            denoiser,
            torch.from_numpy(labels),
            self._size,
            generator_of(self._sums.stream(name + b" pictures")),
            lambda share: tell("drawing pictures", share, {}),
        )
        pictures = drawn.permute(0, 2, 3, 1).reshape(n, *self.shape).numpy()
        values = ((pictures + np.float32(1.0)) * np.float32(self.top / 2.0)).astype(np.float32)
        return self._release(np.clip(values, 0.0, np.float32(self.top)), labels)

    def parameters(self) -> Mapping[str, Any]:
        """Return the public parameters."""
        sgd = self.training.sgd
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "multiplier": sgd.multiplier,
            "clip": sgd.clip,
            "multiplicity": self.training.multiplicity,
            "rate": sgd.rate,
            "steps": sgd.steps,
            "shape": list(self.shape),
            "classes": self.classes,
            "top": self.top,
            "width": self.width,
            "pace": self.training.pace,
            "drawing": self.sampler.steps,
        }

    @property
    def _size(self) -> tuple[int, int, int]:
        """The shape of one picture as networks have it, channels first."""
        return (self.shape[2] if len(self.shape) == 3 else 1, self.shape[0], self.shape[1])
