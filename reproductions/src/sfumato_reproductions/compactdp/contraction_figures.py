"""Figures 3, 11 and 12: features before and after contraction, and the distances between them.

Distances after contraction are shown twice: as they are, which is how the paper compares them, and in units
of what is left of the whole, the root mean square distance of features from their mean. The first tells of
the ruler as well; only the second says that a class has become small beside the distances of classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.compactdp.drawing import AFTER, BEFORE, PaperDrawing
from sfumato_reproductions.compactdp.pool import Part
from sfumato_reproductions.curvature_publication.drawing import by_class
from sfumato_reproductions.tadp_rme.figure import axes_row, legend_below, tidy

__all__ = ["Contracted", "distances_figure", "extractors_figure", "features_figure"]

Floats = NDArray[np.float64]

# Pairs of one class whose distance is taken.
_PAIRS = 20_000
_BINS = 60


@dataclass(frozen=True, eq=False)
class Contracted:
    """Some members before and after the contraction that was trained on all of them."""

    before: Floats
    after: Floats
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, model: Any, members: Part, most: int) -> Contracted:
        """The first ``most`` members, which are any: their order is random."""
        features = members.features[:most].astype(np.float64)
        return cls(features, np.asarray(model.contract(features), dtype=np.float64), members.labels[:most])

    def distances(self) -> dict[str, Floats]:
        """Between two members of one class, before, after, and both in units of their own spread."""
        first, second = _pairs(self.labels)
        found = {}
        for name, points in (("before", self.before), ("after", self.after)):
            found[name] = np.linalg.norm(points[first] - points[second], axis=1)
            spread = float(np.sqrt(np.mean(np.sum((points - points.mean(axis=0)) ** 2, axis=1))))
            found[f"{name}, in units of the spread"] = found[name] / spread
        return found

    def medians(self) -> dict[str, float]:
        """The median of each kind of distance."""
        return {name: float(np.median(values)) for name, values in self.distances().items()}


def _pairs(labels: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    rng = np.random.default_rng(0)
    first, second = rng.integers(len(labels), size=(2, 20 * _PAIRS))
    kept = np.flatnonzero((labels[first] == labels[second]) & (first != second))[:_PAIRS]
    return first[kept], second[kept]


def _trained(records: int) -> str:
    return f"contraction that was trained on {records:,} records"


def features_figure(data: str, contracted: Contracted, names: Sequence[str]) -> PaperDrawing:
    """Figure 3: two dimensions of the features by t-SNE, before and after, in the colours of classes."""
    planes = {"before contraction": _plane(contracted.before), "after contraction": _plane(contracted.after)}

    def draw(figure: Any) -> None:
        panels = axes_row(figure, 2)
        for axes, (name, points) in zip(panels, planes.items(), strict=True):
            by_class(axes, points, contracted.labels)
            for dots, label in zip(axes.collections, np.unique(contracted.labels), strict=True):
                dots.set_label(names[label])
            axes.set_title(name, fontsize=11)
            axes.set_xticks([])
            axes.set_yticks([])
        legend_below(figure, panels[0], 5)
        for dots in figure.legends[0].legend_handles:
            dots.set_sizes([40.0])

    return PaperDrawing(
        number=3,
        title="features before and after contraction",
        caption=f"{len(contracted.labels):,} members of {data} by t-SNE, which keeps neighbours and no "
        "distances; colours are classes. The contraction saw all of these records and their labels, so that "
        "classes coming apart here says nothing of records that it did not see.",
        numbers={"records": len(contracted.labels), "median distances": contracted.medians()},
        size=(10.0, 5.2),
        draw=draw,
    )


def _plane(points: Floats) -> Floats:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    flat = PCA(min(30, *points.shape), random_state=0).fit_transform(points)
    perplexity = min(30.0, (len(flat) - 1) / 4.0)
    return np.asarray(TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(flat))


def distances_figure(data: str, contracted: Contracted, records: int) -> PaperDrawing:
    """Figure 12: the histogram of distances within classes, before and after, on two rulers."""
    found, medians = contracted.distances(), contracted.medians()

    def draw(figure: Any) -> None:
        for axes, unit in zip(axes_row(figure, 2), ("", ", in units of the spread"), strict=True):
            both = {name: found[f"{name}{unit}"] for name in ("before", "after")}
            edges = np.linspace(0.0, max(float(values.max()) for values in both.values()), _BINS)
            for (name, values), colour in zip(both.items(), (BEFORE, AFTER), strict=True):
                label = f"{name}, median {np.median(values):.3g}"
                axes.hist(values, edges, color=colour, alpha=0.6, label=label)
            axes.legend(frameon=False, fontsize=9)
            tidy(axes, x=f"distance of two members of a class{unit}", y="pairs")
        figure.suptitle(_trained(records), fontsize=11)

    return PaperDrawing(
        number=12,
        title=f"distances of members of a class before and after {_trained(records)}",
        caption=f"{data}. Left as the paper has it (there from 20 to 1); right in units of the root mean "
        "square distance of all features from their mean, before and after: what of the contraction a "
        "change of ruler does not explain.",
        numbers=medians,
        size=(10.0, 4.3),
        draw=draw,
    )


def extractors_figure(data: str, contracted: Mapping[str, Contracted], records: int) -> PaperDrawing:
    """Figure 11: median distances within classes by extractor, before and after."""
    medians = {name: item.medians() for name, item in contracted.items()}

    def draw(figure: Any) -> None:
        places = np.arange(len(medians))
        for axes, unit in zip(axes_row(figure, 2), ("", ", in units of the spread"), strict=True):
            for side, (name, colour) in enumerate((("before", BEFORE), ("after", AFTER))):
                values = [row[f"{name}{unit}"] for row in medians.values()]
                bars = axes.barh(places + 0.4 * side - 0.2, values, 0.38, color=colour, label=name)
                axes.bar_label(bars, fmt="%.2g", fontsize=8, padding=2)
            axes.set_yticks(places, list(medians) if not unit else [], fontsize=9)
            axes.invert_yaxis()
            axes.margins(x=0.12)
            tidy(axes, x=f"median distance within a class{unit}", y="")
        legend_below(figure, figure.axes[0], 2)
        figure.suptitle(_trained(records), fontsize=11)

    return PaperDrawing(
        number=11,
        title=f"median distances within classes by extractor, before and after {_trained(records)}",
        caption=f"{data}. These are the networks of table 7, which learn from fewer records than that of "
        "figure 12, so that the same extractor has other distances there. The paper sets its method, 0.95, "
        "beside backbones that were trained on more pictures. Features of different extractors have "
        "different rulers (ours all have length 1 at most), so that lengths on the left compare nothing but "
        "before with after.",
        numbers=medians,
        size=(10.0, 1.9 + 0.45 * len(medians)),
        draw=draw,
    )
