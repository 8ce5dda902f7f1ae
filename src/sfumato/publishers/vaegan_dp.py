"""A conditional VAE-GAN trained by noisy gradients, the baseline of the curvature paper.

``mode="private"``: the generator, an autoencoder, learns by DP-SGD and nothing else reads the pictures.
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

**Networks.** All layers are dense and treat each row alone, so that the gradient of one example's loss
depends on that example alone, to the last bit in a batch of a given size. Weights are drawn from a generator
of their own; torch's global one is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.mechanisms import Release, delta_between, one_of, positive
from sfumato.noise import NoisedSums, Randomness
from sfumato.privacy import DELTA, Claim, Guarantee
from sfumato.publishers.noisy_steps import generator_of, noisy_steps
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

__all__ = ["VAEGANDPPublisher"]

_SPEED = 1e-2
_CRITIC_SPEED = 1e-4
# What the critic's opinion counts beside the loss of an autoencoder, which is about a hundred.
_WEIGHT = 5.0
_MULTIPLIER = 1.1
_BLOCK = 4096


class ConditionalVAE(nn.Module):
    """Pictures of ``values`` values in [0, 1] and labels of ``classes`` to ``latent`` numbers, and back."""

    def __init__(
        self, values: int, classes: int, *, latent: int, hidden: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.classes, self.latent = classes, latent
        self.inwards = _dense(values + classes, hidden, generator)
        self.mean = _dense(hidden, latent, generator)
        self.logarithm = _dense(hidden, latent, generator)
        self.outwards = _dense(latent + classes, hidden, generator)
        self.picture = _dense(hidden, values, generator)

    def forward(self, pictures: Tensor, labels: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of reconstructions (n, values), and latent mean and log variance (n, latent).

        ``noise`` is standard normal, (n, latent).
        """
        kinds = functional.one_hot(labels, self.classes).to(pictures)
        inner = functional.silu(self.inwards(torch.cat([pictures, kinds], dim=1)))
        mean, logarithm = self.mean(inner), self.logarithm(inner).clamp(-8.0, 8.0)
        return self.logits(mean + noise * torch.exp(0.5 * logarithm), labels), mean, logarithm

    def logits(self, latent: Tensor, labels: Tensor) -> Tensor:
        """Return logits (n, values) of the pictures at ``latent`` (n, latent) with ``labels``."""
        kinds = functional.one_hot(labels, self.classes).to(latent)
        return self.picture(functional.silu(self.outwards(torch.cat([latent, kinds], dim=1))))  # type: ignore[no-any-return]

    def losses(self, logits: Tensor, mean: Tensor, logarithm: Tensor, pictures: Tensor) -> Tensor:
        """Return the negative evidence lower bound of each example, (n,)."""
        apart = functional.binary_cross_entropy_with_logits(logits, pictures, reduction="none").sum(dim=1)
        return apart + 0.5 * (mean.square() + logarithm.exp() - 1.0 - logarithm).sum(dim=1)


class Critic(nn.Module):
    """A score (n,) of pictures of ``values`` values with labels of ``classes``: high where they look real."""

    def __init__(self, values: int, classes: int, *, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.classes = classes
        self.inwards = _dense(values + classes, hidden, generator)
        self.score = _dense(hidden, 1, generator)

    def forward(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """Return the scores (n,)."""
        kinds = functional.one_hot(labels, self.classes).to(pictures)
        inner = functional.leaky_relu(self.inwards(torch.cat([pictures, kinds], dim=1)), 0.2)
        return self.score(inner).squeeze(1)  # type: ignore[no-any-return]


def _dense(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer: nn.Linear = skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    bound = 1.0 / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def trained(
    data: Labelled,
    training: DPSGD,
    sums: NoisedSums,
    *,
    latent: int,
    hidden: int,
    critic: bool,
    report: Progress,
) -> ConditionalVAE:
    """Return an autoencoder that has learned from ``data`` in the steps of ``training``.

    Without ``critic`` the data is used through noisy sums alone. With it a critic learns from the pictures
    of each step without noise, and its opinion is a part of the loss; losses are reported.
    """
    try:
        from opacus import GradSampleModule
    except ImportError:
        raise BadInput("gradients of single examples need Opacus: pip install 'sfumato[learn]'.") from None

    generator = generator_of(sums.stream(b"vae-gan weights"))
    values = math.prod(data.shape)
    model = ConditionalVAE(values, data.classes, latent=latent, hidden=hidden, generator=generator)
    judge = _Judge(Critic(values, data.classes, hidden=hidden, generator=generator)) if critic else None
    wrapped = GradSampleModule(model, loss_reduction="sum")
    parameters = list(model.parameters())
    optimiser = torch.optim.Adam(parameters, lr=_SPEED)
    pictures, kinds = torch.from_numpy(data.pictures.reshape(len(data), -1)), torch.from_numpy(data.labels)
    facts: dict[str, float] = {}

    def leave_gradients(taken: NDArray[np.intp], randomness: Randomness) -> None:
        # Asked for a gradient, which nobody uses, so that torch's backward hooks do not warn of it.
        real, labels = pictures[taken].requires_grad_(), kinds[taken]
        draws = generator_of(randomness.stream(b"vae-gan draws"))
        logits, mean, logarithm = wrapped(real, labels, torch.randn((len(taken), latent), generator=draws))
        losses = model.losses(logits, mean, logarithm, real.detach())
        if judge is not None:
            made = torch.sigmoid(logits)
            facts["loss"] = losses.mean().item()
            facts["critic"] = judge.learn(real.detach(), made.detach(), labels)
            losses = losses + _WEIGHT * judge.displeased(made, labels)
        losses.sum().backward()  # type: ignore[no-untyped-call]

    def after(step: int) -> None:
        optimiser.step()
        report("learning by noisy steps", (step + 1) / training.steps, dict(facts))
        facts.clear()

    noisy_steps(training, sums, parameters, len(data), (model, optimiser), leave_gradients, after)
    wrapped.to_standard_module()
    return model.requires_grad_(False)


class _Judge:
    """A critic and its learning, by the logistic loss."""

    def __init__(self, critic: Critic) -> None:
        self.critic = critic
        self._optimiser = torch.optim.Adam(critic.parameters(), lr=_CRITIC_SPEED)

    def learn(self, real: Tensor, made: Tensor, labels: Tensor) -> float:
        """Take one step toward telling ``real`` pictures from those ``made``; return the loss before it."""
        self.critic.requires_grad_(True)
        loss = (
            functional.softplus(-self.critic(real, labels)).mean()
            + functional.softplus(self.critic(made, labels)).mean()
        )
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.critic.requires_grad_(False)
        return float(loss.item())

    def displeased(self, made: Tensor, labels: Tensor) -> Tensor:
        """Return the loss (n,) of pictures that should have passed for real."""
        return functional.softplus(-self.critic(made, labels))


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
        one_noise(epsilon, multiplier)
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon)
        self.delta = delta_between(delta)
        self.multiplier = _MULTIPLIER if multiplier is None else multiplier
        self.clip, self.rate, self.steps = clip, rate, whole_number("steps", steps, 1)
        DPSGD(self.multiplier, rate, self.steps, clip)  # refuses what it cannot use
        self.mode = one_of("mode", mode, ("private", "paper"))
        # Alone among publishers: whether a picture was made from one private picture depends on the mode.
        self.one_to_one = self.mode == "paper"
        self.shape = picture_shape(shape)
        self.classes = whole_number("classes", classes, 2)
        self.latent, self.hidden = whole_number("latent", latent, 1), whole_number("hidden", hidden, 1)
        self.top = positive("top", top)
        self.randomness = published_randomness(randomness)
        self._model: ConditionalVAE | None = None
        self._data: Labelled | None = None

    @cached_property
    def training(self) -> DPSGD:
        """The noisy steps; where ``epsilon`` was given, finding the noise takes some seconds."""
        if self.epsilon is None:
            return DPSGD(self.multiplier, self.rate, self.steps, self.clip)
        return DPSGD.calibrated(self.epsilon, self.delta, rate=self.rate, steps=self.steps, clip=self.clip)

    def guarantee(self) -> Guarantee:
        """Return ε at δ for one record in private mode, known before ``fit``; nothing in paper mode."""
        if self.mode == "paper":
            return Guarantee.nothing(
                "reconstructions of private pictures are published, and the critic learns without noise"
            )
        return self.training.guarantee(self.delta)

    def claim(self) -> Claim | None:
        """Return the paper's words in paper mode, which name no ε."""
        if self.mode == "private":
            return None
        return Claim(
            text="DP is applied to the generator only, by noise and gradient clipping in its training",
            source="Curvature-guided publication, sections 5.1.2 and 5.1.3",
        )

    def fit(self, X: Any, y: Any, *, report: Progress | None = None, sums: NoisedSums | None = None) -> Self:
        """Learn from pictures ``X`` (n, *shape) and labels ``y`` (n,); each call spends the guarantee.

        Losses are reported in paper mode only: they are functions of the private pictures. ``sums`` draws the
        noised sums, or returns those that were drawn before.
        """
        self._sums = sums or NoisedSums(self.randomness)
        data = Labelled.checked(X, y, top=self.top, shape=self.shape, classes=self.classes)
        if self.mode == "paper":
            data = data.varied()
        self._model = trained(
            data,
            self.training,
            self._sums,
            latent=self.latent,
            hidden=self.hidden,
            critic=self.mode == "paper",
            report=report or silent,
        )
        self._records, self._published = len(data), 0
        self._data = data if self.mode == "paper" else None
        return self

    def publish(self, n: int | None = None) -> Release[Pictures]:
        """Return ``n`` pictures, as float32, and their labels; without ``n``, as many as were read.

        In private mode new ones with each call. In paper mode reconstructions of the first ``n`` records,
        by a new draw between encoder and decoder, with their labels.
        """
        fitted(self._model)
        n = self._number(n, most=None if self._data is None else self._records)
        stream = self._sums.stream(f"vae-gan pictures {self._published}".encode())
        self._published += 1
        generator = generator_of(stream)
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
        """Return the public parameters; ``multiplier`` is that of the noise that is drawn."""
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
        """Return pictures from the prior, or in place of the records from ``start``; values in [0, 1]."""
        model = fitted(self._model)
        if self._data is None:
            logits = model.logits(latent, labels)
        else:
            real = self._data.pictures[start : start + len(labels)].reshape(len(labels), -1)
            logits = model(torch.from_numpy(real), labels, latent)[0]
        return np.asarray(torch.sigmoid(logits).numpy(), dtype=np.float32)
