"""Trains the network of ``sfumato.media.images.restoration`` on public photographs and writes its weights.

Inputs: the photographs of ``photographs.for_statistics()``, six photographs that scikit-learn and
scikit-image ship, and the training pictures of CIFAR-10 (``cifar10_20k_5k.npz`` in the folder of real data),
whose 32 × 32 pixels look much as block averages of large photographs do. No test photograph is among them.
Run ``python benchmarks/picture_training.py``; about ten minutes on one core. Needs torch.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

import sfumato.media.images
from photographs import DATA, for_statistics, planes_of
from sfumato.media.images.planes import UNITY, plane_weights
from sfumato.media.images.restoration import SCALE, STATISTICS, expansion, seen_deviation, wiener

Single = NDArray[np.float32]

BLOCKS, STEPS, BATCH, ALIKE = 14, 16_000, 32, 16
SIDES = (3, 4, 5, 6, 7, 8, 10, 12, 14, 16)  # of halves of blocks
CHANNELS, DEPTH = 32, 6


class Network(nn.Module):
    """Convolutions of 3 × 3 with repeated edges, each adding to what came before."""

    def __init__(self) -> None:
        super().__init__()
        widths = [4, *([CHANNELS] * DEPTH), 4]
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1, padding_mode="replicate") for a, b in itertools.pairwise(widths)
        )
        nn.init.zeros_(self.layers[-1].weight)
        nn.init.zeros_(self.layers[-1].bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = functional.relu(self.layers[0](values))
        for layer in self.layers[1:-1]:
            values = values + functional.relu(layer(values))
        return functional.pixel_shuffle(self.layers[-1](values), 2)[:, 0] * SCALE


def halves(generator: np.random.Generator) -> Iterator[tuple[Single, int]]:
    """``ALIKE`` grids of averages over quarters of blocks, less the public mean, and the side of a block."""
    from skimage import data
    from sklearn.datasets import load_sample_images

    weights = (plane_weights(3)[0] / UNITY).astype(np.float32)
    others = [*load_sample_images().images, data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
    lumas = [planes_of(path)[0] for path in for_statistics()] + [
        one.astype(np.float32) @ weights for one in others
    ]
    pools: dict[int, list[Single]] = {side: [] for side in SIDES}
    for luma in lumas:
        for side in SIDES:
            for start in (0, side // 2):
                rows, columns = (length // side for length in luma[start:, start:].shape)
                part = luma[start : start + rows * side, start : start + columns * side]
                grid = part.reshape(rows, side, columns, side).mean(axis=(1, 3)).astype(np.float32)
                if min(grid.shape) >= 2 * BLOCKS:
                    pools[side].append(grid)
    small = np.load(DATA / "cifar10_20k_5k.npz")["x_train"]
    mean, size = np.float32(STATISTICS["luma"].mean), 2 * BLOCKS
    while True:
        side = int(generator.choice(SIDES))
        grids = []
        for one in range(ALIKE):
            if one % 2:
                grid = small[generator.integers(len(small))].astype(np.float32) @ weights
            else:
                grid = pools[side][generator.integers(len(pools[side]))]
            top, left = (generator.integers(length - size + 1) for length in grid.shape)
            grid = grid[top : top + size, left : left + size]
            if generator.random() < 0.5:
                grid = grid[:, ::-1]
            if generator.random() < 0.2:
                grid = grid[::-1]
            if generator.random() < 0.3:
                grid = grid.T
            grids.append(grid)
        yield np.stack(grids) - mean, 2 * side


def examples(generator: np.random.Generator) -> Iterator[tuple[torch.Tensor, ...]]:
    """What the network sees, the Wiener estimate of quarters of blocks, and their true averages."""
    source = halves(generator)
    doubling = expansion(2 * BLOCKS, 2, "best")
    while True:
        parts: list[tuple[Single, ...]] = []
        for _ in range(BATCH // ALIKE):
            truth, side = next(source)
            deviation = np.full((BLOCKS, BLOCKS), np.exp(generator.uniform(np.log(2.0), np.log(150.0))))
            if generator.random() < 0.2:  # a map of shares
                coarse = np.exp(generator.uniform(0.0, np.log(10.0), (4, 4)))
                deviation *= np.kron(coarse, np.ones((4, 4)))[:BLOCKS, :BLOCKS]
            laplace = generator.random() < 0.6
            means = truth.reshape(ALIKE, BLOCKS, 2, BLOCKS, 2).mean(axis=(2, 4))
            noise = (
                generator.laplace(scale=0.5**0.5, size=means.shape)
                if laplace
                else generator.standard_normal(means.shape)
            )
            noisy = (means + deviation * noise).astype(np.float32)
            estimate = wiener(noisy, deviation, "luma", side)
            around = np.broadcast_to(seen_deviation(deviation), means.shape)
            seen = np.stack(
                [noisy / SCALE, estimate / SCALE, around, np.full(means.shape, float(laplace))], axis=1
            )
            parts.append((seen.astype(np.float32), doubling @ estimate @ doubling.T, truth))
        yield tuple(torch.from_numpy(np.concatenate(part)) for part in zip(*parts, strict=True))


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    target = (
        Path(sys.argv[2])
        if len(sys.argv) > 2
        else Path(sfumato.media.images.__file__).with_name("learned.npz")
    )
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = Network()
    optimiser = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    start, gained = time.perf_counter(), 0.0
    source = examples(np.random.default_rng(0))
    for step in range(1, steps + 1):
        seen, estimate, truth = next(source)
        before = ((estimate - truth) ** 2).mean(dim=(1, 2))
        after = ((estimate + network(seen) - truth) ** 2).mean(dim=(1, 2))
        # Half relative to the pair's own error, so that little noise matters as much as a lot of it.
        loss = (after / (0.5 * before + 0.5 * before.mean())).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        gained += 0.01 * (10.0 * float(torch.log10(before / after.detach()).mean()) - gained)
        if step % 500 == 0:
            print(
                f"{step} of {steps}: {gained:.2f} dB better than Wiener, {time.perf_counter() - start:.0f} s",
                flush=True,
            )
            write(network, target)


def write(network: Network, target: Path) -> None:
    stored = {}
    for i, layer in enumerate(network.layers):
        # (outputs, inputs, 3, 3) becomes (9 · inputs, outputs).
        weights = layer.weight.detach().permute(2, 3, 1, 0).reshape(-1, layer.weight.shape[0])
        stored[f"weights{i}"] = weights.numpy().astype(np.float16)
        stored[f"offsets{i}"] = layer.bias.detach().numpy().astype(np.float16)
    np.savez_compressed(target, **stored)


if __name__ == "__main__":
    main()
