"""A learned sensitivity score over any embedding: the network [d, 512, 256, 128, 1] of section 3.1.1.

Adaptive multimedia DP keeps its network calibrated by "θ_t = β·θ_{t−1} + (1 − β)·∇L", called an exponential
moving average. As printed it averages parameters with gradients: units do not agree, parameters shrink by β
at each step, and what is added points up the loss. ``update="paper"`` does exactly that; it learns nothing.
``update="average"``, the default, is the average that the words describe: Adam moves θ, and scores come from
θ̄_t = β·θ̄_{t−1} + (1 − β)·θ_t.

Dropout stays on when scores are read. The mean of several passes plus ``caution`` times their deviation,
at most 1, is the score: where the network is unsure, a place counts as more sensitive.

A scorer knows what it was trained on. Train it on public annotations; trained on private ones, whatever
follows its scores proves nothing for the people in them.

**Embedding**: a public embedding of tiles that needs no trained network: colours, directions of edges, and
coarse form.

Each tile is embedded from its own pixels alone, so that scores of embeddings may stand in a private map.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import numeric, one_of, positive, share, whole
from sfumato.media.detect import Box, Detector

__all__ = ["Learned", "SensitivityScorer", "tile_embedding"]

Array = NDArray[np.float64]

_BINS, _DIRECTIONS, _WAVES = 6, 8, 6
_LUMA = np.array([0.299, 0.587, 0.114])
_BLUE = np.array([-0.169, -0.331, 0.5])
_RED = np.array([0.5, -0.419, -0.081])

#: Length of an embedding: histograms of three planes, of edge directions, moments, and cosine coefficients.
DIMENSIONS = 3 * _BINS + _DIRECTIONS + 6 + _WAVES * _WAVES


def tile_embedding(tiles: NDArray[Any]) -> NDArray[np.float64]:
    """Return embeddings (n, :data:`DIMENSIONS`) of ``tiles`` (n, h, w, c); grey tiles have no colour."""
    from scipy.fft import dctn

    white = 1.0 if tiles.dtype.kind == "f" else float(np.iinfo(tiles.dtype).max)
    values = tiles[..., :3].astype(np.float64) / white
    colour = values if values.shape[-1] == 3 else np.repeat(values[..., :1], 3, axis=-1)
    luma, blue, red = colour @ _LUMA, colour @ _BLUE, colour @ _RED
    down, across = np.gradient(luma, axis=1), np.gradient(luma, axis=2)
    strength = np.hypot(down, across)
    turn = ((np.arctan2(down, across) / np.pi) % 1.0 * _DIRECTIONS).astype(np.intp) % _DIRECTIONS
    # A quarter of white in chroma is already vivid.
    parts = [
        _histogram(luma, 0.0, 1.0, _BINS),
        _histogram(blue, -0.25, 0.25, _BINS),
        _histogram(red, -0.25, 0.25, _BINS),
        _binned(turn, strength, _DIRECTIONS),
        np.stack([each.mean(axis=(1, 2)) for each in (luma, blue, red)], axis=1),
        np.stack([each.std(axis=(1, 2)) for each in (luma, blue, red)], axis=1),
        _waves(dctn(luma, axes=(1, 2), norm="forward")),
    ]
    return np.concatenate(parts, axis=1)


def _histogram(values: NDArray[np.float64], low: float, high: float, bins: int) -> NDArray[np.float64]:
    places = np.clip(((values - low) / (high - low) * bins).astype(np.intp), 0, bins - 1)
    return _binned(places, np.ones_like(values), bins)


def _binned(places: NDArray[np.intp], weights: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the mean over each tile of the weights that fall into each bin: (n, bins)."""
    count, size = len(places), places[0].size
    flat = places.reshape(count, -1) + bins * np.arange(count)[:, None]
    sums = np.bincount(flat.ravel(), weights.ravel(), minlength=bins * count)
    return np.asarray(sums.reshape(count, bins) / size)


def _waves(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sizes of the lowest coefficients, square-rooted, so that strong ones do not drown the others."""
    low = coefficients[:, :_WAVES, :_WAVES]
    kept = np.zeros((len(low), _WAVES, _WAVES))
    kept[:, : low.shape[1], : low.shape[2]] = np.sqrt(np.abs(low))
    return kept.reshape(len(low), -1)


_HIDDEN = (512, 256, 128)


class SensitivityScorer:
    """Scores in [0, 1] from embeddings (n, d), learned from annotated sensitivities.

    ``caution`` is k in mean + k·deviation over ``passes`` passes with dropout. Training and scoring are
    reproducible for one ``seed`` and one version of torch.
    """

    def __init__(
        self,
        *,
        update: str = "average",
        beta: float = 0.99,
        dropout: float = 0.3,
        epochs: int = 10,
        batch: int = 256,
        rate: float = 1e-3,
        caution: float = 1.0,
        passes: int = 20,
        seed: int = 0,
    ) -> None:
        self.update = one_of("update", update, ("average", "paper"))
        self.beta, self.dropout = share("beta", beta), share("dropout", dropout)
        if self.dropout >= 1.0 or self.beta >= 1.0:
            raise BadInput(
                "`beta` and `dropout` must lie below 1: at 1 nothing is learned.", parameter="beta"
            )
        self.rate, self.caution = (
            positive("rate", rate),
            0.0 if caution == 0 else positive("caution", caution),
        )
        self.epochs, self.batch = whole("epochs", epochs), whole("batch", batch)
        self.passes, self.seed = whole("passes", passes), seed
        self._network: Any = None
        self._centre: Array = np.zeros(0)
        self._spread: Array = np.ones(0)

    def fit(
        self, embeddings: Any, scores: Any, *, report: Callable[[str, float], None] | None = None
    ) -> Self:
        """Learn from ``embeddings`` (n, d) whose sensitivities ``scores`` (n,) in [0, 1] were annotated."""
        torch = _torch()
        data, target = _embeddings(embeddings), numeric(scores)
        if target is None or target.shape != data.shape[:1]:
            raise BadInput(f"{len(data)} embeddings need as many scores, in an array of one axis.")
        if not ((target >= 0.0) & (target <= 1.0)).all() or target.min() == target.max():
            raise BadInput("annotated scores must lie between 0 and 1, and must not all be the same.")
        self._centre, spread = data.mean(axis=0), data.std(axis=0)
        self._spread = np.where(spread > 0.0, spread, 1.0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._network = self._trained(torch, self._scaled(torch, data), torch.tensor(target), report)
        return self

    def predict(self, embeddings: Any) -> tuple[Array, Array]:
        """Return mean and deviation, (n,) each, of the score over passes with dropout."""
        torch, data = _torch(), _embeddings(embeddings)
        if self._network is None:
            raise BadInput("the scorer has learned nothing yet: call fit first.")
        if data.shape[1] != self._centre.size:
            raise BadInput(f"the scorer learned {self._centre.size} features, not {data.shape[1]}.")
        self._network.train()  # dropout stays on
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(self.seed + 1)
            inputs = self._scaled(torch, data)
            drawn = torch.stack([torch.sigmoid(self._network(inputs)[:, 0]) for _ in range(self.passes)])
        values = drawn.numpy().astype(np.float64)
        return values.mean(axis=0), values.std(axis=0)

    def scores(self, embeddings: Any) -> Array:
        """Return the careful score: mean + ``caution`` · deviation, at most 1."""
        mean, deviation = self.predict(embeddings)
        return np.clip(mean + self.caution * deviation, 0.0, 1.0)

    def digest(self) -> str:
        """Return SHA-256 of everything that shapes a score."""
        if self._network is None:
            raise BadInput("the scorer has learned nothing yet: call fit first.")
        learned = [weights.numpy() for weights in self._network.state_dict().values()]
        named = repr((self.dropout, self.caution, self.passes, self.seed)).encode()
        parts = [np.ascontiguousarray(each).tobytes() for each in (self._centre, self._spread, *learned)]
        return hashlib.sha256(named + b"".join(parts)).hexdigest()

    def _scaled(self, torch: Any, data: Array) -> Any:
        return torch.tensor((data - self._centre) / self._spread, dtype=torch.float32)

    def _trained(
        self, torch: Any, data: Any, target: Any, report: Callable[[str, float], None] | None
    ) -> Any:
        layers: list[Any] = []
        width = data.shape[1]
        for hidden in _HIDDEN:
            layers += [torch.nn.Linear(width, hidden), torch.nn.ReLU(), torch.nn.Dropout(self.dropout)]
            width = hidden
        network = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
        parameters = list(network.parameters())
        moved = torch.optim.Adam(parameters, lr=self.rate)
        loss = torch.nn.BCEWithLogitsLoss()
        average, steps = [torch.zeros_like(each) for each in parameters], 0
        target = target.to(torch.float32)
        for epoch in range(self.epochs):
            for rows in torch.randperm(len(data)).split(self.batch):
                moved.zero_grad()
                loss(network(data[rows])[:, 0], target[rows]).backward()
                steps += 1
                with torch.no_grad():
                    if self.update == "paper":
                        for each in parameters:
                            each.mul_(self.beta).add_(each.grad, alpha=1.0 - self.beta)
                        continue
                moved.step()
                with torch.no_grad():
                    for kept, each in zip(average, parameters, strict=True):
                        kept.mul_(self.beta).add_(each, alpha=1.0 - self.beta)
            if report is not None:
                report("scorer", (epoch + 1) / self.epochs)
        if self.update == "average":
            # The average began at zero; what is missing of its weights after few steps is divided out.
            with torch.no_grad():
                for kept, each in zip(average, parameters, strict=True):
                    each.copy_(kept / (1.0 - self.beta**steps))
        return network


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise BadInput("the learned scorer needs torch: pip install 'sfumato[learn]'.") from None
    return torch


def _embeddings(value: Any) -> Array:
    data = numeric(value)
    if data is None or data.ndim != 2 or not data.size or not np.isfinite(data).all():
        raise BadInput("embeddings must be an array (n, d) of finite numbers.")
    return data


class Learned(Detector):
    """``scorer``, trained on embeddings of tiles of about ``tile`` pixels, speaking of ``factor``.

    ``embedding`` maps tiles (n, h, w, c) to (n, d), each from its own pixels alone.
    """

    def __init__(
        self,
        scorer: SensitivityScorer,
        *,
        factor: str = "identity",
        tile: int = 64,
        embedding: Callable[[NDArray[Any]], NDArray[np.float64]] = tile_embedding,
    ) -> None:
        self.scorer, self.tile, self.embedding = scorer, tile, embedding
        self.factor = one_of("factor", factor, ("identity", "location", "behaviour", "preference"))

    @property
    def name(self) -> str:
        """How a statement names the detector, with the digest of what was learned."""
        return f"learned {self.factor}, sha256 {self.scorer.digest()}"

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """Return one box for each tile of the picture, with its score."""
        array = picture[..., None] if picture.ndim == 2 else picture
        scores = self.tile_scores(array[None], self.tile)[0]
        down, across = (
            [index * side // parts for index in range(parts + 1)]
            for side, parts in zip(array.shape[:2], scores.shape, strict=True)
        )
        return [
            (float(x0), float(y0), float(x1 - x0), float(y1 - y0), float(scores[row, col]))
            for row, (y0, y1) in enumerate(pairwise(down))
            for col, (x0, x1) in enumerate(pairwise(across))
        ]

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """Return the careful score of each tile."""
        return self.scorer.scores(self.embedding(tiles))
