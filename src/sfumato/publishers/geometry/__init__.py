"""Geometry of a learned manifold: metric, curves, geodesics and curvature of whatever has an ``embed``.

Nothing here trains anything. A manifold is one method, from latent points to a mean and a deviation; all
functions take latent points as torch tensors with one point in a row.
"""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this package may count on it)
except ImportError:
    raise BadInput("the geometry of a manifold needs torch: pip install 'sfumato[learn]'.") from None

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.publishers.geometry.curvature_measures import curvature as curvature
    from sfumato.publishers.geometry.geodesic_solver import Spline as Spline
    from sfumato.publishers.geometry.geodesic_solver import curve_length as curve_length
    from sfumato.publishers.geometry.geodesic_solver import geodesics as geodesics
    from sfumato.publishers.geometry.manifold import pullback_metric as pullback_metric

__all__ = ["Spline", "curvature", "curve_length", "geodesics", "pullback_metric"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "curvature": "curvature_measures",
            "Spline": "geodesic_solver",
            "curve_length": "geodesic_solver",
            "geodesics": "geodesic_solver",
            "pullback_metric": "manifold",
        },
    )
