"""A conditional VAE-GAN trained by noisy gradients, the baseline of the curvature paper.

``mode="private"``: the generator, an autoencoder, learns by DP-SGD and nothing else reads the pictures.
Pictures are drawn from the prior, with labels drawn evenly from the declared classes.

**Guarantee.** Of ``"private"``: that of :class:`~sfumato.learners.DPSGD` for all its steps, since weights
leave only through noisy sums of clipped gradients, and pictures are made of weights and of new randomness.
Rate, steps and noise are parameters; the number of records is public (zero-out neighbours).

Of ``mode="paper"``: nothing, for two reasons. It publishes reconstructions, each a function of one private
picture, which noise in the training of the weights does not hide. And "applying DP only to the generator"
leaves a critic that learns from private pictures without noise and whose score enters every gradient of
the generator, other examples' included: clipping then bounds nothing.

**Edge cases.** Steps whose sample is empty add noise alone. Wrong shapes, labels outside the declared classes
and NaN are refused before anything is drawn.

**Networks.** All layers are dense. The gradient of one example's loss depends on that example alone
(:func:`~.trained_publisher.example_gradients`). Weights are drawn from a generator of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional

from sfumato.mechanisms import Release, one_of
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee
from sfumato.publishers.publisher import Labelled, Pictures, Progress, fitted, whole_number
from sfumato.publishers.trained_publisher import TrainedPublisher, example_gradients, make_generator

__all__ = ["VAEGANDPPublisher"]

_LEARNING_RATE = 1e-2
_CRITIC_LEARNING_RATE = 1e-4
# The weight of the critic's score beside the loss of an autoencoder, which is about a hundred.
_WEIGHT = 5.0
_BLOCK = 4096


class ConditionalVAE(nn.Module):
    """From pictures of ``values`` values in [0, 1] with one-hot labels to ``latent`` numbers, and back."""

    def __init__(self, values: int, classes: int, latent: int, hidden: int, generator: Generator) -> None:
        super().__init__()
        self.inwards = _dense(values + classes, hidden, generator)
        self.mean = _dense(hidden, latent, generator)
        self.logarithm = _dense(hidden, latent, generator)
        self.outwards = _dense(latent + classes, hidden, generator)
        self.picture = _dense(hidden, values, generator)

    def forward(self, pictures: Tensor, kinds: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of reconstructions (n, values), and latent mean and log variance (n, latent).

        ``kinds`` are one-hot labels (n, classes), and ``noise`` is standard normal, (n, latent).
        """
        inner = functional.silu(self.inwards(torch.cat([pictures, kinds], dim=1)))
        mean, logarithm = self.mean(inner), self.logarithm(inner).clamp(-8.0, 8.0)
        return self.logits(mean + noise * torch.exp(0.5 * logarithm), kinds), mean, logarithm

    def logits(self, latent: Tensor, kinds: Tensor) -> Tensor:
        """Return logits (n, values) of the pictures at ``latent`` (n, latent) with one-hot labels."""
        return self.picture(functional.silu(self.outwards(torch.cat([latent, kinds], dim=1))))  # type: ignore[no-any-return]

    @staticmethod
    def losses(logits: Tensor, mean: Tensor, logarithm: Tensor, pictures: Tensor) -> Tensor:
        """Return the negative evidence lower bound of each example, (n,)."""
        apart = functional.binary_cross_entropy_with_logits(logits, pictures, reduction="none").sum(dim=1)
        return apart + 0.5 * (mean.square() + logarithm.exp() - 1.0 - logarithm).sum(dim=1)


class Critic(nn.Module):
    """A score (n,) of pictures of ``values`` values with one-hot labels: high where they look real."""

    def __init__(self, values: int, classes: int, hidden: int, generator: Generator) -> None:
        super().__init__()
        self.inwards = _dense(values + classes, hidden, generator)
        self.score = _dense(hidden, 1, generator)

    def forward(self, pictures: Tensor, kinds: Tensor) -> Tensor:
        """Return the scores (n,)."""
        inner = functional.leaky_relu(self.inwards(torch.cat([pictures, kinds], dim=1)), 0.2)
        return self.score(inner).squeeze(1)  # type: ignore[no-any-return]


def _dense(inputs: int, outputs: int, generator: Generator) -> nn.Linear:
    # Without skip_init the layer would first draw from torch's global generator.
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    bound = 1.0 / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


class _Judge:
    """A critic and its learning, by the logistic loss."""

    def __init__(self, critic: Critic) -> None:
        self.critic = critic
        self._optimiser = torch.optim.Adam(critic.parameters(), lr=_CRITIC_LEARNING_RATE)

    def learn(self, real: Tensor, made: Tensor, kinds: Tensor) -> float:
        """Take one step toward telling ``real`` pictures from those ``made``; return the loss before it."""
        self.critic.requires_grad_(True)
        loss = (
            functional.softplus(-self.critic(real, kinds)).mean()
            + functional.softplus(self.critic(made, kinds)).mean()
        )
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.critic.requires_grad_(False)
        return float(loss.item())

    def generator_losses(self, made: Tensor, kinds: Tensor) -> Tensor:
        """Return the loss (n,) of pictures that should have passed for real."""
        return functional.softplus(-self.critic(made, kinds))


@dataclass(eq=False)
class VAEGANDPPublisher(TrainedPublisher):
    """Publishes pictures of ``shape`` with values from 0 to ``top`` and labels 0…``classes``−1.

    ``mode`` is ``"private"`` or ``"paper"``, of which nothing is proven; ``latent`` and ``hidden`` are the
    sizes of the autoencoder's layers; the noise has a ``multiplier`` of 1.1, as in the paper, unless that or
    ``epsilon`` is given. See :class:`~.trained_publisher.TrainedPublisher`.
    """

    _: KW_ONLY
    steps: int = 400
    mode: str = "private"
    latent: int = 8
    hidden: int = 64

    usual_multiplier = 1.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mode = one_of("mode", self.mode, ("private", "paper"))
        # Alone among publishers: whether a picture was made from one private picture depends on the mode.
        self.one_to_one = self.mode == "paper"
        self.latent = whole_number("latent", self.latent, 1)
        self.hidden = whole_number("hidden", self.hidden, 1)
        self._data: Labelled | None = None

    def guarantee(self) -> Guarantee:
        """Return ε at δ for one record in private mode, known before ``fit``; nothing in paper mode."""
        if self.mode == "paper":
            return Guarantee.nothing(
                "reconstructions of private pictures are published, and the critic learns without noise"
            )
        return super().guarantee()

    def claim(self) -> Claim | None:
        """Return the paper's words in paper mode, which name no ε."""
        if self.mode == "private":
            return None
        return Claim(
            text="DP is applied to the generator only, by noise and gradient clipping in its training",
            source="Curvature-guided publication, sections 5.1.2 and 5.1.3",
        )

    def publish(self, n: int | None = None) -> Release[Pictures]:
        """Return ``n`` pictures, as float32, and their labels; without ``n``, as many as were read.

        In private mode new ones with each call. In paper mode reconstructions of the first ``n`` records,
        by a new draw between encoder and decoder, with their labels.
        """
        fitted(self._model)
        n = self._number(n, most=None if self._data is None else self._records)
        stream = self._sums.stream(f"vae-gan pictures {self._published}".encode())
        self._published += 1
        generator = make_generator(stream)
        if self._data is None:
            labels = np.random.default_rng(stream.integer(128)).integers(self.classes, size=n)
        else:
            labels = self._data.labels[:n]
        pictures = np.empty((n, math.prod(self.shape)), dtype=np.float32)
        for start in range(0, n, _BLOCK):
            kinds = self._one_hot(labels[start : start + _BLOCK])
            latent = torch.randn((len(kinds), self.latent), generator=generator)
            pictures[start : start + _BLOCK] = self._drawn(start, kinds, latent)
        return self._release(self.top * pictures.reshape(n, *self.shape), labels.astype(np.int64))

    def _train(self, data: Labelled, report: Progress) -> ConditionalVAE:
        """Return an autoencoder that has learned from ``data``.

        In private mode the data is used through noisy sums alone. In paper mode a critic learns from the
        pictures of each step without noise, its score is a part of the loss, and losses are reported: they
        are functions of the private pictures.
        """
        paper = self.mode == "paper"
        self._data = data.varied() if paper else None
        generator = make_generator(self._sums.stream(b"vae-gan weights"))
        values = math.prod(self.shape)
        model = ConditionalVAE(values, self.classes, self.latent, self.hidden, generator).requires_grad_(
            False
        )
        judge = _Judge(Critic(values, self.classes, self.hidden, generator)) if paper else None
        parameters = list(model.parameters())
        optimiser = torch.optim.Adam(parameters, lr=_LEARNING_RATE)
        pictures = torch.from_numpy(data.pictures.reshape(len(data), -1))
        kinds = self._one_hot(data.labels)
        facts: dict[str, float] = {}

        def loss(
            forward: Callable[..., tuple[Tensor, ...]], picture: Tensor, kind: Tensor, noise: Tensor
        ) -> Tensor:
            logits, mean, logarithm = forward((picture[None], kind[None], noise[None]))
            found = model.losses(logits, mean, logarithm, picture[None])
            if judge is not None:
                found = found + _WEIGHT * judge.generator_losses(torch.sigmoid(logits), kind[None])
            return found.sum()

        of_examples = example_gradients(model, loss)

        def gradients(taken: NDArray[np.intp], randomness: Randomness) -> Iterator[list[Tensor]]:
            draws = make_generator(randomness.stream(b"vae-gan draws"))
            given = pictures[taken], kinds[taken], torch.randn((len(taken), self.latent), generator=draws)
            if judge is not None and len(taken):
                logits, mean, logarithm = model(*given)
                facts["loss"] = model.losses(logits, mean, logarithm, given[0]).mean().item()
                facts["critic"] = judge.learn(given[0], torch.sigmoid(logits), given[1])
            return of_examples(*given)

        self.sgd.train(
            parameters,
            len(data),
            gradients,
            lambda _: optimiser.step(),
            self._sums,
            learning=(model, optimiser),
            report=lambda done: report("learning by noisy steps", done, dict(facts)),
        )
        return model

    @torch.no_grad()
    def _drawn(self, start: int, kinds: Tensor, latent: Tensor) -> NDArray[np.float32]:
        """Return pictures from the prior, or in place of the records from ``start``; values in [0, 1]."""
        if self._data is None:
            logits = self._model.logits(latent, kinds)
        else:
            real = self._data.pictures[start : start + len(kinds)].reshape(len(kinds), -1)
            logits = self._model(torch.from_numpy(real), kinds, latent)[0]
        return np.asarray(torch.sigmoid(logits).numpy(), dtype=np.float32)

    def _one_hot(self, labels: NDArray[np.int64]) -> Tensor:
        return functional.one_hot(torch.from_numpy(labels), self.classes).float()
