"""Figures 4 to 8 from a bench: trained models and attacked records, and what they say in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.curvature_publication.bench import Bench
from sfumato_reproductions.curvature_publication.candidates import AS_THE_PAPER, MATCHED
from sfumato_reproductions.curvature_publication.drawing import PaperDrawing
from sfumato_reproductions.curvature_publication.geodesic_figure import geodesic_figure
from sfumato_reproductions.curvature_publication.imbalance import TOP, Floats, Labels, Part
from sfumato_reproductions.curvature_publication.latent_figure import latent_figure
from sfumato_reproductions.curvature_publication.membership import right_about
from sfumato_reproductions.curvature_publication.strategies_figure import NAMES, strategies_figure
from sfumato_reproductions.curvature_publication.vulnerability import (
    ALL,
    EXTRINSIC,
    PAPER,
    WITHIN,
    Association,
    Vulnerability,
    vulnerability,
)
from sfumato_reproductions.curvature_publication.vulnerability_figures import (
    distribution_figure,
    samples_figure,
)

__all__ = ["Figures"]

# Records that the figures of latent spaces show, and those whose curvature is set against an attack.
_SHOWN, _VULNERABLE = 2000, 2000
_DECODER = "K(z) of the decoder"


class Figures:
    """Draws figures of the data set of ``bench`` by their numbers."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        makers: dict[int, Callable[[], PaperDrawing]] = {
            4: self._latent,
            5: self._geodesics,
            6: self._strategies,
            7: lambda: distribution_figure(self._vulnerability),
            8: lambda: samples_figure(self._vulnerability, self._attacked[0].pictures),
        }
        self._makers = makers

    def draw(self, number: int) -> PaperDrawing:
        """Figure ``number``, 4 to 8."""
        return self._makers[number]()

    def _latent(self) -> PaperDrawing:
        pictures, labels = self._some()
        return latent_figure(self.bench.flat_publisher.run.model, pictures, labels)

    def _geodesics(self) -> PaperDrawing:
        pictures, labels = self._some()
        return geodesic_figure(self.bench.publisher.obfuscator(), pictures, labels, seed=self.bench.seed)

    def _strategies(self) -> PaperDrawing:
        pictures, labels = self._some()
        run = self.bench.publisher.run
        return strategies_figure(run.model, run.estimator, pictures, labels, seed=self.bench.seed)

    def _some(self) -> tuple[Floats, Labels]:
        """Private pictures from 0 to 1; their order is already random."""
        private = self.bench.data.private
        return private.pictures[:_SHOWN] / np.float32(TOP), private.labels[:_SHOWN]

    @cached_property
    def _attacked(self) -> tuple[Part, NDArray[np.bool_], NDArray[np.bool_]]:
        return self._asked(AS_THE_PAPER)

    def _asked(self, protocol: str) -> tuple[Part, NDArray[np.bool_], NDArray[np.bool_]]:
        """Records from 0 to 1 that an attack on the original was asked about, its success, and who is in."""
        bench = self.bench
        asked, right, members = right_about(
            bench.data,
            bench.original,
            protocol,
            attacked=bench.run.attacked,
            seed=bench.seed,
            epochs=bench.run.epochs,
        )
        some = np.random.default_rng(bench.seed).permutation(len(asked))[:_VULNERABLE]
        part = asked.rows(some)
        return Part(part.pictures / np.float32(TOP), part.labels), right[some], members[some]

    @cached_property
    def _vulnerability(self) -> Vulnerability:
        """Of the paper's attack, with the curvature of the trained decoder beside the paper's measure."""
        import torch

        from sfumato.publishers.riemannian import curvature

        part, right, members = self._attacked
        model = self.bench.publisher.run.model
        own = curvature(model, model.means(torch.from_numpy(part.pictures))).double().numpy()
        return vulnerability(
            part.pictures, part.labels, right, members=members, others={_DECODER: own}, seed=self.bench.seed
        )

    def _correlations(self) -> list[str]:
        """Curvature and success, by the paper's attack and by one that the label tells nothing."""
        data, found = self.bench.data.name, self._vulnerability
        told = [
            f"Figure 7, {data}: the correlation of {name} with the success of the paper's attack is "
            f"{_shown(measure, ALL)}, {WITHIN} {_shown(measure, WITHIN)}; of members alone "
            f"{_shown(measure, 'members')}, {WITHIN} {_shown(measure, f'members, {WITHIN}')}"
            + (f" (the paper: {PAPER['correlation']:.4f} over all)." if name == EXTRINSIC else ".")
            for name, measure in found.measures.items()
        ]
        part, right, members = self._asked(MATCHED)
        if right.all() or not right.any():
            return told
        matched = vulnerability(part.pictures, part.labels, right, members=members, seed=self.bench.seed)
        return [
            *told,
            f"Figure 7, {data}: with a threshold on the loss, class-matched, the correlation of {EXTRINSIC} "
            f"is {_shown(matched.extrinsic, ALL)}, of members alone {WITHIN} "
            f"{_shown(matched.extrinsic, f'members, {WITHIN}')}.",
        ]

    def says(self, drawing: PaperDrawing) -> list[str]:
        """What a figure says."""
        numbers, data = drawing.numbers, self.bench.data.name
        if drawing.number == 4:
            at, elsewhere = numbers["median curvature at boundaries"], numbers["median curvature elsewhere"]
            if at is None or elsewhere is None:
                return []
            return [
                f"Figure 4, {data}: the median K(z) is {at:.3g} where classes meet and {elsewhere:.3g} "
                f"elsewhere; the paper sees higher curvature at boundaries."
            ]
        if drawing.number == 5:
            share = numbers["centre in the class of its record"]
            return [
                f"Figure 5, {data}: the centre that a record is moved towards is of its class in {share:.0%}."
            ]
        if drawing.number == 6:
            ours = numbers[NAMES["lowest"]]
            return [
                f"Figure 6, {data}: by equation 15 {ours['unmoved']:.0%} of the records stay exactly where "
                f"they are, {ours['unmoved peaks']:.0%} because they are themselves the most curved point of "
                "their path: those are published as the decoder reproduces them."
            ]
        return self._correlations() if drawing.number == 7 else []


def _shown(measure: Association, name: str) -> str:
    """A correlation; where success does not vary there is none."""
    estimate = measure.correlations[name]
    return "none, the success not varying," if math.isnan(estimate.value) else str(estimate)
