"""The frontier, to be looked at: sliders for distrust and ε, and what becomes of public pictures."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.reports.frontier_plot import Frontier, FrontierPlot, Point
from sfumato.reports.numbers import at_most, plain
from sfumato.serve.pages.endpoints import page
from sfumato.serve.pages.page_rendering import is_fragment, section_of
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.pages.samples import DISTRUSTS, EPSILONS, LEAST, SAMPLES, budget

__all__ = ["ROUTES"]

_FIRST = ("astronaut", 4, 5)
_SIDES = ("before", "after")


def _explorer(visit: Visit) -> Response:
    sample, epsilon, distrust = _chosen(visit.request)
    shown = visit.desk.samples.shown(sample, EPSILONS[epsilon], DISTRUSTS[distrust])
    values: dict[str, Any] = {
        "here": "explorer",
        "samples": SAMPLES.values(),
        "sample": SAMPLES[sample],
        "epsilon": epsilon,
        "distrust": distrust,
        "scales": {"epsilon": EPSILONS, "distrust": DISTRUSTS},
        "least": plain(LEAST),
        "most_text": plain(EPSILONS[epsilon]),
        "distrust_text": plain(DISTRUSTS[distrust]),
        "budget_text": at_most(budget(EPSILONS[epsilon], DISTRUSTS[distrust])),
        "shown": shown,
        "section": section_of(SAMPLES[sample].title, shown.statement),
    }
    return visit.page("explored.html" if is_fragment(visit.request) else "explorer.html", **values)


def _picture(visit: Visit, sample: str, epsilon: str, distrust: str, side: str) -> Response:
    if side not in _SIDES:
        raise BadInput("a sample is shown before and after.")
    found = visit.desk.samples.shown(
        sample, EPSILONS[_place(epsilon, EPSILONS)], DISTRUSTS[_place(distrust, DISTRUSTS)]
    )
    body = found.before if side == "before" else found.after
    return Response(body, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


def _frontier(visit: Visit) -> Response:
    """Utility against ε of one sample, at every value of the scale for the most trusted reader."""
    sample, _, _ = _chosen(visit.request)
    samples = visit.desk.samples
    points = []
    for epsilon in EPSILONS:
        shown = samples.shown(sample, epsilon, 0.0)
        points.append(Point(f"ε = {plain(epsilon)}", shown.utility, shown.statement.proven.epsilon()))
    edge = Frontier(points, utility=SAMPLES[sample].utility)
    return visit.page(
        "frontier.html",
        here="explorer",
        sample=SAMPLES[sample],
        samples=SAMPLES.values(),
        frontier=edge,
        plots_drawn=FrontierPlot.drawn(edge),
    )


def _chosen(request: Request) -> tuple[str, int, int]:
    """The sample and the places on both scales that the address names; the first ones where it names none."""
    query = request.query_params
    sample = query.get("sample", _FIRST[0])
    if sample not in SAMPLES:
        raise BadInput(f"the samples are {', '.join(SAMPLES)}.")
    epsilon = _place(query.get("epsilon", str(_FIRST[1])), EPSILONS)
    return sample, epsilon, _place(query.get("distrust", str(_FIRST[2])), DISTRUSTS)


def _place(text: str, scale: tuple[float, ...]) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 3 or int(text) >= len(scale):
        raise BadInput(f"a place on this scale is a whole number from 0 to {len(scale) - 1}.")
    return int(text)


ROUTES = [
    page("/explorer", _explorer, "explorer", slow=True),
    page("/explorer/frontier", _frontier, "frontier", slow=True),
    page("/explorer/{sample}/{epsilon}/{distrust}/{side}.png", _picture, "sample", slow=True),
]
