"""Geometry of a learned manifold: metric, curves, geodesics and curvature of whatever has an ``embed``.

Nothing here trains anything. A manifold is one method, from latent points to a mean and a deviation; all
functions take latent points as torch tensors with one point in a row.
"""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this folder may count on it)
except ImportError:
    raise BadInput("the geometry of a manifold needs torch: pip install 'sfumato[learn]'.") from None

from sfumato.publishers.geometry.curvature import curvature, eigenvalue_differences, eigenvalue_slopes
from sfumato.publishers.geometry.geodesics import Geodesics, geodesics
from sfumato.publishers.geometry.latent_curves import curve_energy, curve_length
from sfumato.publishers.geometry.manifold import Manifold
from sfumato.publishers.geometry.metric import log_determinant, pullback_metric
from sfumato.publishers.geometry.spline import Spline
from sfumato.publishers.geometry.surfaces import Cylinder, Paraboloid, Pseudosphere, Sphere

__all__ = [
    "Cylinder",
    "Geodesics",
    "Manifold",
    "Paraboloid",
    "Pseudosphere",
    "Sphere",
    "Spline",
    "curvature",
    "curve_energy",
    "curve_length",
    "eigenvalue_differences",
    "eigenvalue_slopes",
    "geodesics",
    "log_determinant",
    "pullback_metric",
]
