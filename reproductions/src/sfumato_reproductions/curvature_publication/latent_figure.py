"""Figure 4: a latent space of two dimensions, its curvature, and two ways from one class to another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato_reproductions.curvature_publication.drawing import PaperDrawing, by_class, strips
from sfumato_reproductions.tadp_rme.figure import tidy

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.publishers.riemannian import RiemannianVAE

__all__ = ["latent_figure"]

# Points of the background along each side, samples of the two paths, and how many of them are decoded.
GRID, SAMPLES, DECODED = 72, 60, 8
# A record whose nearest others are of several classes is at a boundary.
NEAREST = 10
GEODESIC, LINE = "black", "#d6001c"


def latent_figure(
    model: RiemannianVAE, pictures: Any, labels: Any, *, first: int = 2, last: int = 6
) -> PaperDrawing:
    """The plane of a model with two latent dimensions, and the paths between classes ``first`` and ``last``.

    The ends are the records of their classes that the decoder renders best, so that the decoded pictures
    begin and end as those classes if it knows them at all. Curvature is K(z) itself, not the estimate of it.

    Raises:
        BadInput: If the model has another latent dimension, or a class has no record.
    """
    import torch

    from sfumato.publishers.riemannian import curvature, geodesics

    classes = np.asarray(labels, dtype=np.int64)
    if model.latent != 2:
        raise BadInput(f"figure 4 needs a model of 2 latent dimensions; this one has {model.latent}.")
    given = torch.as_tensor(pictures, dtype=torch.float32)
    codes = model.means(given)
    start, end = (codes[_best(model, given, codes, classes == label, label)] for label in (first, last))
    found = geodesics(model, start, end, knots=7, samples=SAMPLES)
    paths = {
        "geodesic": found.curves.samples(SAMPLES)[0],
        "straight line": torch.lerp(start, end, torch.linspace(0.0, 1.0, SAMPLES)[:, None]),
    }
    sides, field = _field(model, codes)
    own = curvature(model, codes).double().numpy()
    numbers = {
        "classes": [first, last],
        "converged": bool(found.converged[0]),
        "length": {name: _length(model, path) for name, path in paths.items()},
        "curvature along": {name: curvature(model, path).tolist() for name, path in paths.items()},
        "median curvature of class": {
            str(label): float(np.median(own[classes == label])) for label in np.unique(classes)
        },
        **_boundaries(codes.double().numpy(), classes, own),
    }
    with torch.no_grad():
        shown = [model.decode(_some(path)).numpy() for path in paths.values()]

    def draw(figure: Any) -> None:
        plane, side = figure.subfigures(1, 2, width_ratios=(1.15, 1.0))
        axes = plane.subplots()
        shade = np.log10(field)
        image = axes.imshow(
            shade,
            origin="lower",
            extent=sides,
            aspect="auto",
            cmap="Greys",
            interpolation="bilinear",
            # Far from the records the curvature runs away; the shades are kept for where they are.
            vmin=float(np.quantile(shade, 0.02)),
            vmax=float(np.quantile(shade, 0.98)) + 0.5,
        )
        by_class(axes, codes.double().numpy(), classes)
        for (name, path), (colour, line) in zip(paths.items(), ((GEODESIC, "-"), (LINE, "--")), strict=True):
            axes.plot(*path.numpy().T, color="white", linewidth=4.5)
            axes.plot(*path.numpy().T, color=colour, linestyle=line, linewidth=2.2, label=name)
        axes.set_xlim(*sides[:2])
        axes.set_ylim(*sides[2:])
        plane.colorbar(image, ax=axes, label="log₁₀ K(z)", pad=0.01, shrink=0.8)
        tidy(axes, x="first latent axis", y="second latent axis")
        axes.grid(False)
        legend = {"loc": "outside lower center", "ncols": 6, "frameon": False, "fontsize": 9}
        plane.legend(*axes.get_legend_handles_labels(), markerscale=2.5, **legend)
        top, bottom = side.subplots(2, 1, height_ratios=(0.6, 1.0))
        strips(top, shown, list(paths), title=f"decoded, from a {first} to a {last}")
        for name, colour, line in (("geodesic", GEODESIC, "-"), ("straight line", LINE, "--")):
            way = np.linspace(0.0, 1.0, SAMPLES)
            bottom.plot(way, numbers["curvature along"][name], color=colour, linestyle=line, label=name)
        bottom.set_ylim(bottom=0.0)
        tidy(bottom, x="way along the path", y="K(z)")
        bottom.legend(frameon=False, fontsize=9)

    return PaperDrawing(
        number=4,
        title="latent space of two dimensions",
        caption=f"Records by class over log K(z), darker where the curvature is higher; the geodesic and the "
        f"straight line from a {first} to a {last}, what the decoder makes of points along both, and K along "
        "both.",
        numbers=numbers,
        size=(13.0, 5.8),
        draw=draw,
    )


def _length(model: RiemannianVAE, path: Tensor) -> float:
    """The sum of the chords of a path (samples, d) in the data, mean and deviation together."""
    import torch

    with torch.no_grad():
        steps = [part.diff(dim=0) for part in model.embed(path)]
    return float(torch.cat(steps, dim=1).norm(dim=1).sum())


def _best(
    model: RiemannianVAE, given: Tensor, codes: Tensor, own: NDArray[np.bool_], label: int
) -> list[int]:
    """The row of the best rendered record among ``own``, as a list of one."""
    import torch

    rows = np.flatnonzero(own)
    if not rows.size:
        raise BadInput(f"figure 4 needs records of class {label}, and there is none.")
    with torch.no_grad():
        errors = (model.decode(codes[rows]) - given[rows]).flatten(1).square().sum(dim=1)
    return [int(rows[int(errors.argmin())])]


def _field(model: RiemannianVAE, codes: Tensor) -> tuple[tuple[float, float, float, float], NDArray[Any]]:
    """Sides of the part of the plane that holds the records, and K on a grid of it, row by row from below."""
    import torch

    from sfumato.publishers.riemannian import curvature

    low, high = codes.min(dim=0).values, codes.max(dim=0).values
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    across, along = (torch.linspace(float(low[i]), float(high[i]), GRID) for i in range(2))
    points = torch.stack(torch.meshgrid(across, along, indexing="xy"), dim=2).reshape(-1, 2)
    found = curvature(model, points).reshape(GRID, GRID).double().numpy()
    smallest = found[found > 0.0].min() if (found > 0.0).any() else math.ulp(0.0)
    return (float(low[0]), float(high[0]), float(low[1]), float(high[1])), np.maximum(found, smallest)


def _some(path: Tensor) -> Tensor:
    return path[np.linspace(0, len(path) - 1, DECODED).round().astype(int)]


def _boundaries(codes: NDArray[Any], classes: NDArray[np.int64], own: NDArray[Any]) -> dict[str, Any]:
    """Median K of records among their own class alone, and of those whose neighbours are of several."""
    from sklearn.neighbors import NearestNeighbors

    count = min(NEAREST, len(codes) - 1)
    near = NearestNeighbors(n_neighbors=count + 1).fit(codes).kneighbors(codes, return_distance=False)
    mixed = (classes[near] != classes[:, None]).any(axis=1)
    return {
        "share at boundaries": float(mixed.mean()),
        "median curvature at boundaries": float(np.median(own[mixed])) if mixed.any() else None,
        "median curvature elsewhere": float(np.median(own[~mixed])) if not mixed.all() else None,
    }
