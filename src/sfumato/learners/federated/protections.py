"""Protections by the names people type; see ``protection_base`` for what a protection is."""

from __future__ import annotations

from typing import Any

from sfumato.errors import BadInput, quoted
from sfumato.learners.federated.protection_base import NoProtection, Protection
from sfumato.learners.federated.repeated_reports import RepeatedReports
from sfumato.learners.federated.tensor_paper import TensorPaper
from sfumato.learners.federated.update_noise import UPDATE_MECHANISMS, UpdateNoise
from sfumato.privacy.defaults import DELTA, FEDERATED, REQUIRED

__all__ = ["PROTECTIONS", "Protection", "make_protection", "protection_name"]

#: Names on the command line; the paper's own names of its baselines are understood too.
PROTECTIONS = (*UPDATE_MECHANISMS, "repeated-priv-unit-g", "tensor-ldp", "none")
_ALSO = {
    "llagp": "layer-adaptive",
    "dphsgd": "hessian-clipped",
    "mvg": "matrix-variate-gaussian",
    "idn": "independent-directional",
    "privunit": "priv-unit",
    "privunitg": "priv-unit-g",
    "tldp": "tensor-ldp",
}
#: What those take that are no single mechanism on updates.
_OWN = {"tensor-ldp": ("noise", "span", "retain"), "repeated-priv-unit-g": ("each",)}


def protection_name(name: str) -> str:
    """The name in ``PROTECTIONS`` that ``name`` stands for."""
    known = _ALSO.get(name, name)
    if known not in PROTECTIONS:
        raise BadInput(
            f"there is no mechanism {name!r} for clients: accepted are {', '.join(PROTECTIONS)}.",
            parameter="mechanism",
        )
    return known


def make_protection(
    name: str,
    *,
    epsilon: float = REQUIRED,
    delta: float = DELTA,
    clip: float | None = None,
    limit: float | None = None,
    neighbours: str = FEDERATED.neighbours,
    **options: Any,
) -> Protection:
    """The protection called ``name``; ``epsilon`` and ``delta`` are those of one round.

    ``clip`` is the L2 norm of an update (L1 for laplace), ``limit`` its L∞ norm; one of them is needed,
    according to the mechanism. For ``tensor-ldp``, the paper's own mode, ``clip`` is the L∞ norm of the
    *parameters* (1 unless given), and ``noise`` (laplace or gaussian), ``span`` (Δ, 256 unless given) and
    ``retain`` may be given. ``repeated-priv-unit-g`` takes ``each``, the most ε of one report. For the others
    ``options`` are parameters of the mechanism, such as ``curvature`` of hessian-clipped, ``levels`` of
    grid-tensor-ldp, or ``calibration="paper"`` of matrix-variate-gaussian.
    """
    known = protection_name(name)
    if known == "none":
        return NoProtection()
    if known not in _OWN:
        return UpdateNoise(
            name=known,
            epsilon=epsilon,
            delta=delta,
            clip=clip,
            limit=limit,
            neighbours=neighbours,
            options=options,
        )
    unused = ["limit"] if limit is not None and known == "tensor-ldp" else []
    foreign = sorted(set(options) - set(_OWN[known])) + unused
    if foreign:
        raise BadInput(f"{known} takes no {', '.join(map(quoted, foreign))}.", parameter=foreign[0])
    if neighbours != "replace":
        raise BadInput(
            f"{known} is proven for replace neighbours, not for {neighbours}.", parameter="neighbours"
        )
    if known == "tensor-ldp":
        return TensorPaper(epsilon=epsilon, delta=delta, clip=1.0 if clip is None else clip, **options)
    if clip is None:
        raise BadInput(
            f"{known} needs `clip`, the largest norm of an update; read off data it leaks.", parameter="clip"
        )
    return RepeatedReports(epsilon=epsilon, clip=clip, limit=limit, **options)
