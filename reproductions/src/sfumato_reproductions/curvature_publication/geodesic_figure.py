"""Figure 5: geodesics from records to the centres that contribute most, and what is decoded along them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato_reproductions.curvature_publication.drawing import CLASS_COLOURS, PaperDrawing, by_class, strips
from sfumato_reproductions.tadp_rme.figure import tidy

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.publishers.riemannian import Obfuscator, RiemannianVAE

__all__ = ["geodesic_figure"]

# Records that ISOMAP is fitted to, its neighbours, geodesics shown, and pictures decoded along each.
EMBEDDED, NEIGHBOURS, SHOWN, DECODED = 1200, 10, 8, 8
# The class of a centre is that of most of the records nearest to it.
NEAREST = 10


def geodesic_figure(obfuscator: Obfuscator, pictures: Any, labels: Any, *, seed: int = 0) -> PaperDrawing:
    """Latent points of the model brought to the plane by ISOMAP, with geodesics to centres drawn among them.

    ``obfuscator`` decides paths and choices. Of up to eight classes one record each is drawn by ``seed``. The
    numbers say how often the class of the centre is the record's, over all records given, and by class.

    Raises:
        BadInput: If there are fewer records than ISOMAP's neighbours.
    """
    import torch
    from sklearn.manifold import Isomap

    model: RiemannianVAE = obfuscator.model  # type: ignore[assignment]  # pictures need its encoder as well
    classes = np.asarray(labels, dtype=np.int64)
    if len(classes) <= NEIGHBOURS:
        raise BadInput(f"figure 5 needs more than {NEIGHBOURS} records; {len(classes)} were given.")
    codes = model.means(torch.as_tensor(pictures, dtype=torch.float32))
    rng = np.random.default_rng(seed)
    embedded = rng.permutation(len(codes))[:EMBEDDED]
    chosen = _one_of_each(rng, classes)
    paths = obfuscator.paths(codes[chosen])
    isomap = Isomap(n_neighbors=NEIGHBOURS, n_components=2).fit(codes[embedded].double().numpy())
    flat = {
        "records": isomap.embedding_,
        "centres": isomap.transform(model.centres.detach().double().numpy()),
        "curves": [isomap.transform(curve.double().numpy()) for curve in paths.curves],
    }
    with torch.no_grad():
        decoded = [model.decode(_some(curve)).numpy() for curve in paths.curves]
        nearest = model.contributions(codes).argmax(dim=1).numpy()
    same = _classes_of_centres(codes, classes, model.centres.detach())[nearest] == classes
    numbers = {
        "centre in the class of its record": float(same.mean()),
        "the same, by class": {str(c): float(same[classes == c].mean()) for c in np.unique(classes)},
        "shown": [
            {"class": int(classes[row]), "centre": int(paths.centres[i]), "chosen": int(paths.chosen[i])}
            for i, row in enumerate(chosen)
        ],
    }

    def draw(figure: Any) -> None:
        plane, side = figure.subfigures(1, 2, width_ratios=(1.15, 1.0))
        axes = plane.subplots()
        by_class(axes, flat["records"], classes[embedded])
        axes.scatter(*flat["centres"].T, marker="x", s=16, color="black", linewidths=0.8, label="centre")
        for i, curve in enumerate(flat["curves"]):
            colour = CLASS_COLOURS[int(classes[chosen[i]]) % len(CLASS_COLOURS)]
            axes.plot(*curve.T, color="white", linewidth=4.0)
            axes.plot(*curve.T, color=colour, linewidth=2.0)
            axes.plot(*curve[0], marker="o", color=colour, markeredgecolor="black", markersize=6)
            axes.plot(*curve[-1], marker="X", color=colour, markeredgecolor="black", markersize=8)
        tidy(axes, x="first ISOMAP axis", y="second ISOMAP axis")
        legend = {"loc": "outside lower center", "ncols": 6, "frameon": False, "fontsize": 9}
        plane.legend(*axes.get_legend_handles_labels(), markerscale=2.0, **legend)
        names = [f"class {classes[row]}" for row in chosen]
        strips(side.subplots(), decoded, names, title="decoded, from the record to its centre")

    return PaperDrawing(
        number=5,
        title="geodesics to the centres that contribute most",
        caption=f"{model.latent} latent dimensions brought to two by ISOMAP; circles are records, crosses "
        "the centres at the ends of their geodesics, which have corners here because ISOMAP places a new "
        "point by its neighbours. Right: what the decoder makes of points along each.",
        numbers=numbers,
        size=(13.0, 6.2),
        draw=draw,
    )


def _one_of_each(rng: np.random.Generator, classes: NDArray[np.int64]) -> NDArray[np.intp]:
    found = np.unique(classes)
    some = found[np.linspace(0, len(found) - 1, min(SHOWN, len(found))).round().astype(int)]
    return np.array([rng.choice(np.flatnonzero(classes == label)) for label in some])


def _some(curve: Tensor) -> Tensor:
    return curve[np.linspace(0, len(curve) - 1, DECODED).round().astype(int)]


def _classes_of_centres(codes: Tensor, classes: NDArray[np.int64], centres: Tensor) -> NDArray[np.int64]:
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(NEAREST, len(codes))).fit(codes.double().numpy())
    near = classes[search.kneighbors(centres.double().numpy(), return_distance=False)]
    return np.array([np.bincount(row).argmax() for row in near], dtype=np.int64)
