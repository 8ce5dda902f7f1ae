"""Geometry of a decoder from 10 latent dimensions to 784 pixels by way of two hidden layers of 500."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from sfumato.publishers.riemannian import curvature, geodesics
from sfumato.publishers.riemannian.manifold import pullback_metric
from timing import Row, interleaved

POINTS, LATENT, HIDDEN, PIXELS = 10_000, 10, 500, 784
CURVES, SAMPLES, SECONDS = 1_000, 20, 60.0
# Points in one turn, and how often each turn is taken. Reverse mode needs a pass for every pixel: of each
# turn it is timed on the first few points, and scaled.
TURN, ROUNDS, PART = 1_000, 2, 20
FORWARD, METRIC, EXACT = "one pass: mean and deviation", "metric G(z)", "curvature K(z), exact derivatives"
REVERSE = "metric by reverse-mode Jacobians"


class Decoder(nn.Module):
    """Networks of one shape for the mean and the deviation, drawn at random, far from linear."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Sequential(*_layers(), nn.Sigmoid())
        self.deviation = nn.Sequential(*_layers(), nn.Softplus())

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean(z), self.deviation(z)


def measure() -> list[Row]:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        decoder = Decoder()
        z, start, end = torch.randn(POINTS, LATENT), *torch.randn(2, CURVES, LATENT)
    with torch.no_grad():
        return [*_against_a_pass(decoder, z), _geodesics(decoder, start, end)]


def _against_a_pass(decoder: Decoder, z: Tensor) -> list[Row]:
    """Sums over parts of the points, each timed with all ways taking turns.

    In one piece the passes would last seconds and the curvature a minute: whoever else uses the machine would
    then be measured with one and not with the other.
    """
    decoder.embed(z[:PART])  # what is built at first use is no part of the comparison
    curvature(decoder, z[:PART])
    seconds = dict.fromkeys((FORWARD, METRIC, REVERSE, EXACT), 0.0)
    for points in z.split(TURN):
        work: dict[str, Callable[[], object]] = {
            FORWARD: partial(decoder.embed, points),
            METRIC: partial(pullback_metric, decoder, points),
            REVERSE: partial(_reversed, decoder, points[:PART]),
            EXACT: partial(curvature, decoder, points),
        }
        for name, best in interleaved(work, rounds=ROUNDS).items():
            seconds[name] += best * (TURN / PART if name == REVERSE else 1.0)
    ratios = {name: value / seconds[FORWARD] for name, value in seconds.items()}
    limits = {METRIC: 16.0, EXACT: 80.0}
    rows = [Row(name, f"{seconds[name]:.2f} s", ratios[name], at_most=limits.get(name)) for name in seconds]
    faster = ratios[REVERSE] / ratios[METRIC]
    return [*rows, Row("metric, times faster than by reverse mode", f"{faster:.0f} ×", faster, at_least=30.0)]


def _geodesics(decoder: Decoder, start: Tensor, end: Tensor) -> Row:
    found = []
    work = {"found": lambda: found.append(geodesics(decoder, start, end, samples=SAMPLES))}
    seconds = interleaved(work, rounds=1)["found"]
    reached = 100.0 * float(found[0].converged.float().mean())
    name = f"{CURVES:,} geodesics of {SAMPLES} samples, {reached:.0f}% converged; ratio = over {SECONDS:g} s"
    return Row(name, f"{seconds:.1f} s", seconds / SECONDS, at_most=1.0)


def _reversed(decoder: Decoder, z: Tensor) -> Tensor:
    """The metric with a backward pass for every pixel, through the network it belongs to and no other."""
    jacobians = [vmap(jacrev(network))(z) for network in (decoder.mean, decoder.deviation)]
    return sum(jacobian.mT @ jacobian for jacobian in jacobians)


def _layers() -> list[nn.Module]:
    layers: list[nn.Module] = []
    for before, after in ((LATENT, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, PIXELS)):
        layer = nn.Linear(before, after)
        nn.init.normal_(layer.weight, std=1.5 * before**-0.5)
        layers += [layer, nn.Tanh()]
    return layers[:-1]
