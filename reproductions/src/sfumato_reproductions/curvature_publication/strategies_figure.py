"""Figure 6: the same records after each interpolation strategy, and how far each strategy moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.curvature_publication.drawing import PaperDrawing, strips

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from sfumato.publishers.riemannian import RiemannianVAE

__all__ = ["NAMES", "strategies_figure"]

#: Strategy of the obfuscator -> what the paper calls it.
NAMES = {"linear": "linear", "highest": "highest curvature", "lowest": "ours"}
SHOWN = 10


def strategies_figure(
    model: RiemannianVAE,
    estimator: Callable[[Tensor], Tensor],
    pictures: Any,
    labels: Any,
    *,
    least: int = 0,
    seed: int = 0,
) -> PaperDrawing:
    """Ten records by ``seed``, of as many classes as there are, and every strategy's pictures of them.

    The paper's rows, and one more: what the decoder makes of records that were not moved at all, without
    which nobody sees what a strategy adds to the blur of the decoder. The numbers are over all records given:
    the share of them that stays exactly where it is, the share that stays although it is the most curved
    point of its path, the mean way in the latent space, and the mean squared change of a pixel against the
    picture of the unmoved record. ``least`` above 0 adds a row for ours with that many samples skipped.
    """
    import torch

    from sfumato.publishers.riemannian import Obfuscator

    given = torch.as_tensor(pictures, dtype=torch.float32)
    classes = np.asarray(labels, dtype=np.int64)
    codes = model.means(given)
    shown = _spread(np.random.default_rng(seed), classes)
    with torch.no_grad():
        plain = model.decode(codes)
    rows: dict[str, NDArray[Any]] = {
        "original": given[shown].numpy(),
        "decoded, not moved": plain[shown].numpy(),
    }
    made = {NAMES[strategy]: Obfuscator(model, estimator, strategy=strategy) for strategy in NAMES}
    if least:
        made[f"ours from sample {least} on"] = Obfuscator(model, estimator, least=least)
    numbers: dict[str, Any] = {}
    for name, obfuscator in made.items():
        paths = obfuscator.paths(codes)
        with torch.no_grad():
            moved = model.decode(paths.points)
        rows[name] = moved[shown].numpy()
        numbers[name] = {
            "unmoved": paths.unmoved,
            "unmoved peaks": paths.unmoved_peaks,
            "mean sample taken": float(paths.chosen.double().mean()),
            "way": float((paths.points - codes).norm(dim=1).mean()),
            "pixel change": float((moved - plain).square().mean()),
        }
    numbers["decoded, not moved"] = {"error": float((plain - given).square().mean())}

    def draw(figure: Any) -> None:
        strips(figure.subplots(), list(rows.values()), list(rows))

    return PaperDrawing(
        number=6,
        title="samples for the interpolation strategies",
        caption="Linear takes the middle of the straight line to the centre, highest curvature the most "
        "curved sample of the geodesic, ours the least curved one before it. Where ours is the unmoved "
        f"record, the row below the original is repeated: {numbers['ours']['unmoved']:.0%} of all records.",
        numbers=numbers,
        size=(9.0, 0.75 * len(rows) + 0.3),
        draw=draw,
    )


def _spread(rng: np.random.Generator, classes: NDArray[np.int64]) -> NDArray[np.intp]:
    """Rows of one record of each class in turn, in the order of classes."""
    queues = [list(rng.permutation(np.flatnonzero(classes == label))) for label in np.unique(classes)]
    taken: list[int] = []
    while len(taken) < SHOWN and any(queues):
        taken += [int(queue.pop()) for queue in queues if queue]
    rows = np.array(taken[:SHOWN])
    return rows[np.argsort(classes[rows], kind="stable")]
