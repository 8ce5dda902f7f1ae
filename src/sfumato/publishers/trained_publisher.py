"""Base of publishers that train a network by DP-SGD, and gradients of single examples of any network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

from torch import Generator, Tensor, nn
from torch.func import functional_call, grad, vmap

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.mechanisms import delta_between, positive
from sfumato.noise import NoisedSums, Randomness, Stream
from sfumato.privacy import DELTA, Guarantee
from sfumato.publishers.publisher import (
    Labelled,
    Progress,
    Publisher,
    checked_randomness,
    picture_shape,
    silent,
    whole_number,
)


@dataclass(eq=False)
class TrainedPublisher(Publisher):
    """Base of publishers of pictures of ``shape``, values from 0 to ``top``, with labels 0…``classes``−1.

    Each of ``steps`` steps takes every record with probability ``rate``, clips gradients to the norm ``clip``
    and adds noise of ``multiplier`` times that; with ``epsilon`` instead, the least multiplier that proves it
    at ``delta``. All parameters are public.
    """

    epsilon: float | None = None
    delta: float = DELTA
    _: KW_ONLY
    multiplier: float = None  # type: ignore[assignment]  # ``usual_multiplier`` unless given
    clip: float = 1.0
    rate: float = 0.01
    steps: int = 100
    shape: tuple[int, ...] = (28, 28)
    classes: int = 10
    top: float = 255.0
    randomness: Randomness = None  # type: ignore[assignment]  # the operating system's unless given

    usual_multiplier: ClassVar[float]
    fewest_pixels: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.epsilon is not None and self.multiplier is not None:
            raise BadInput(
                "`epsilon` and `multiplier` were both given: the noise follows from one of them.",
                parameter="multiplier",
            )
        self.delta = delta_between(self.delta)
        if self.epsilon is None:
            chosen = self.usual_multiplier if self.multiplier is None else self.multiplier
            self.sgd = DPSGD(chosen, self.rate, self.steps, self.clip)
        else:
            self.epsilon = positive("epsilon", self.epsilon)
            self.sgd = DPSGD.calibrated(
                self.epsilon, self.delta, rate=self.rate, steps=self.steps, clip=self.clip
            )
        self.multiplier = self.sgd.multiplier
        self.shape = picture_shape(self.shape, self.fewest_pixels)
        self.classes = whole_number("classes", self.classes, 2)
        self.top = positive("top", self.top)
        self.randomness = checked_randomness(self.randomness)
        self._model: Any = None

    def guarantee(self) -> Guarantee:
        """Return ε at δ for one record, known before ``fit``; ``publish`` adds nothing to it."""
        return self.sgd.guarantee(self.delta)

    def fit(self, X: Any, y: Any, *, report: Progress | None = None, sums: NoisedSums | None = None) -> Self:
        """Spend the guarantee on pictures ``X`` (n, *shape) and labels ``y`` (n,); each call spends it.

        ``sums`` draws the noised sums, or returns those that were drawn before.
        """
        self._sums = sums or NoisedSums(self.randomness)
        data = Labelled.checked(X, y, top=self.top, shape=self.shape, classes=self.classes)
        self._model = self._train(data, report or silent)
        # Known to everybody under zero-out neighbours.
        self._records, self._published = len(data), 0
        return self

    def _train(self, data: Labelled, report: Progress) -> Any:
        """Return the model that draws pictures, made of ``data`` by ``self.sgd`` and ``self._sums``."""
        raise NotImplementedError


def make_generator(stream: Stream) -> Generator:
    """Return a torch generator seeded from ``stream``, for draws that no proof rests on."""
    return Generator().manual_seed(stream.integer(64) % 2**63)


def example_gradients(
    network: nn.Module, loss: Callable[..., Tensor], *, at_once: int = 64
) -> Callable[..., Iterator[list[Tensor]]]:
    """Return a function of tensors (n, …), one row an example, that yields gradients of single examples.

    It yields blocks of at most ``at_once`` examples: the gradient (n, …) of each parameter of ``network``.
    ``loss(forward, *row)`` is the loss of one example, given the rows that belong to it; ``forward(given)``
    evaluates the network on a tuple of arguments. ``torch.func.vmap`` evaluates each example by itself: a
    gradient is a function of the weights and of its own rows, whatever the network does.
    """

    def of_one(weights: dict[str, Tensor], *row: Tensor) -> Tensor:
        return loss(partial(functional_call, network, weights), *row)

    def of_all(*rows: Tensor) -> Iterator[list[Tensor]]:
        weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
        of_block = vmap(grad(of_one), in_dims=(None, *(0 for _ in rows)))
        for start in range(0, len(rows[0]), at_once):
            found = of_block(weights, *(part[start : start + at_once] for part in rows))
            yield [found[name] for name in weights]

    return of_all
