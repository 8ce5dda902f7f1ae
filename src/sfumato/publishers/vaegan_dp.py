"""A conditional VAE-GAN whose generator learns by noisy gradients, as the curvature paper compares with it.

``mode="private"``: the generator, an autoencoder, learns by DP-SGD and nothing else looks at the pictures.
Pictures are drawn from the prior, with labels drawn evenly from the declared classes.

**Guarantee.** Of ``"private"``: that of :class:`~sfumato.learners.dp_sgd.DPSGD` for all its steps, since
weights leave only through noisy sums of clipped gradients, and pictures are made of weights and of new
randomness. Rate, steps and noise are parameters; the number of records is public (zero-out neighbours).

Of ``mode="paper"``: nothing, for two reasons. It publishes reconstructions, each a function of one private
picture, which noise in the training of the weights does not hide. And "applying DP only to the generator"
leaves a critic that learns from private pictures without noise and whose opinion flows into every gradient of
the generator, other examples' included: clipping then bounds nothing.

**Edge cases.** Steps whose sample is empty add noise alone. Wrong shapes, labels outside the declared classes
and NaN are refused before anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import DPSGD
from sfumato.mechanisms.parameters import delta_between, one_of, positive, shown
from sfumato.mechanisms.release_value import Release
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee
from sfumato.privacy.defaults import DELTA
from sfumato.publishers.labelled_images import Labelled
from sfumato.publishers.publisher import Progress, Publisher, published_randomness, whole
from sfumato.publishers.vaegan_networks import ConditionalVAE
from sfumato.publishers.vaegan_training import trained

__all__ = ["VAEGANDPPublisher"]

_MULTIPLIER = 1.1
_BLOCK = 4096


class VAEGANDPPublisher(Publisher):
    """Publishes pictures of ``shape`` with values from 0 to ``top`` and labels 0…``classes``−1.

    Noise of ``multiplier`` (1.1, as in the paper) times ``clip`` is added at each of ``steps`` steps, for
    which each record is taken with probability ``rate``; ``epsilon`` in place of ``multiplier`` chooses the
    least noise that proves it at ``delta``. ``mode`` is ``"private"`` or ``"paper"``, of which nothing is
    proven. A step holds the gradients of all examples taken, so ``rate`` × records × weights numbers.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = DELTA,
        *,
        multiplier: float | None = None,
        clip: float = 1.0,
        rate: float = 0.01,
        steps: int = 400,
        mode: str = "private",
        shape: tuple[int, ...] = (28, 28),
        classes: int = 10,
        latent: int = 8,
        hidden: int = 64,
        top: float = 255.0,
        randomness: Randomness | None = None,
    ) -> None:
        if epsilon is not None and multiplier is not None:
            raise BadInput(
                "`epsilon` and `multiplier` were both given: the noise follows from one of them.",
                parameter="multiplier",
            )
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon)
        self.delta = delta_between(delta)
        self.multiplier = _MULTIPLIER if multiplier is None else multiplier
        self.clip, self.rate, self.steps = clip, rate, whole("steps", steps, 1)
        DPSGD(self.multiplier, rate, self.steps, clip)  # refuses what it cannot use
        self.mode = one_of("mode", mode, ("private", "paper"))
        # Alone among publishers: whether a picture was made from one private picture depends on the mode.
        self.one_to_one = self.mode == "paper"
        if not isinstance(shape, tuple | list) or len(shape) not in (2, 3):
            raise BadInput(
                f"`shape` was {shown(shape)}: a picture is (height, width) or (height, width, channels).",
                parameter="shape",
            )
        self.shape = tuple(whole("shape", side, 1) for side in shape)
        self.classes = whole("classes", classes, 2)
        self.latent, self.hidden = whole("latent", latent, 1), whole("hidden", hidden, 1)
        self.top = positive("top", top)
        self.randomness = published_randomness(randomness)
        self._model: ConditionalVAE | None = None
        self._data: Labelled | None = None
        self._records = self._published = 0

    @cached_property
    def training(self) -> DPSGD:
        """The noisy steps; where ``epsilon`` was given, finding the noise takes some seconds."""
        if self.epsilon is None:
            return DPSGD(self.multiplier, self.rate, self.steps, self.clip)
        return DPSGD.calibrated(self.epsilon, self.delta, rate=self.rate, steps=self.steps, clip=self.clip)

    def guarantee(self) -> Guarantee:
        """Of private mode ε at δ for one record, known before ``fit``; of paper mode nothing."""
        if self.mode == "paper":
            return Guarantee.nothing(
                "reconstructions of private pictures are published, and the critic learns without noise"
            )
        return self.training.guarantee(self.delta)

    def claim(self) -> Claim | None:
        """Of paper mode the paper's words, which name no ε."""
        if self.mode == "private":
            return None
        return Claim(
            text="DP is applied to the generator only, by noise and gradient clipping in its training",
            source="Curvature-guided publication, sections 5.1.2 and 5.1.3",
        )

    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Learn from pictures ``X`` (n, *shape) and labels ``y`` (n,); each call spends the guarantee.

        Losses are reported in paper mode only: they are functions of the private pictures.
        """
        data = Labelled.checked(X, y, top=self.top, shape=self.shape, classes=self.classes)
        if self.mode == "paper":
            data = data.varied()
        self._model = trained(
            data,
            self.training,
            self.randomness,
            latent=self.latent,
            hidden=self.hidden,
            critic=self.mode == "paper",
            report=report or (lambda stage, share, facts: None),
        )
        self._records, self._published = len(data), 0
        self._data = data if self.mode == "paper" else None
        return self

    def publish(self, n: int | None = None) -> Release:
        """``n`` pictures, as float32, and their labels; as many as were read without ``n``.

        In private mode new ones with each call. In paper mode reconstructions of the first ``n`` records,
        by a new draw between encoder and decoder, with their labels.
        """
        if self._model is None:
            raise BadInput("nothing has been fitted: call fit(X, y) before publish(n).")
        n = self._records if n is None else whole("n", n, 1)
        if self._data is not None and n > self._records:
            raise BadInput(f"`n` was {n}: there are {self._records} pictures to reconstruct.", parameter="n")
        stream = self.randomness.stream(f"vae-gan pictures {self._published}".encode())
        self._published += 1
        generator = torch.Generator().manual_seed(stream.integer(64) % 2**63)
        if self._data is None:
            labels = np.random.default_rng(stream.integer(128)).integers(self.classes, size=n)
        else:
            labels = self._data.labels[:n]
        pictures = np.empty((n, math.prod(self.shape)), dtype=np.float32)
        for start in range(0, n, _BLOCK):
            kinds = torch.from_numpy(labels[start : start + _BLOCK])
            latent = torch.randn((len(kinds), self.latent), generator=generator)
            pictures[start : start + _BLOCK] = self._drawn(start, kinds, latent)
        return self._release(self.top * pictures.reshape(n, *self.shape), labels.astype(np.int64))

    def parameters(self) -> Mapping[str, Any]:
        """The public parameters; ``multiplier`` is that of the noise that is drawn."""
        return {
            "mode": self.mode,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "multiplier": self.training.multiplier,
            "clip": self.clip,
            "rate": self.rate,
            "steps": self.steps,
            "shape": list(self.shape),
            "classes": self.classes,
            "latent": self.latent,
            "hidden": self.hidden,
            "top": self.top,
        }

    @torch.no_grad()
    def _drawn(self, start: int, labels: Tensor, latent: Tensor) -> NDArray[np.float32]:
        """Pictures from the prior, or in place of the records from ``start``; values in [0, 1]."""
        assert self._model is not None
        if self._data is None:
            logits = self._model.logits(latent, labels)
        else:
            real = self._data.pictures[start : start + len(labels)].reshape(len(labels), -1)
            logits = self._model(torch.from_numpy(real), labels, latent)[0]
        return np.asarray(torch.sigmoid(logits).numpy(), dtype=np.float32)
