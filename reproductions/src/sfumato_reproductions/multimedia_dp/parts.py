"""From a request to a page: which parts are made, in which order, and what is told of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from sfumato.errors import BadInput
from sfumato_reproductions.multimedia_dp.composition import composition_figure
from sfumato_reproductions.multimedia_dp.part import Part
from sfumato_reproductions.multimedia_dp.protocol import Run
from sfumato_reproductions.multimedia_dp.sources import Sources, check_media
from sfumato_reproductions.regenerate import Regenerated, Report, Request

__all__ = ["tables_and_figures"]

_FIGURE = 2
# A part, or why there is none.
_Maker = Callable[[Sources, Report], Part | str]


def tables_and_figures(request: Request, report: Report) -> Regenerated:
    """Make what ``request`` names, or all of it and the measures beyond the tables where it names nothing.

    The figure alone is drawn without a page.
    """
    if request.data or request.seeds is not None:
        raise BadInput(
            "multimedia-dp is measured on the photographs, clips and speech of the folder SFUMATO_DATA: "
            "--data and --seeds do not apply to it."
        )
    if request.figures and not request.tables:
        return composition_figure(request, report)
    check_media()
    request.output.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    everything = not request.tables
    sources = Sources(Run.of(request.quick))
    makers = _makers()
    wanted = list(makers) if everything else [f"table {number}" for number in request.tables]
    made = {key: makers[key](sources, report) for key in wanted}
    parts = tuple(part for part in made.values() if isinstance(part, Part))
    absent = {key: why for key, why in made.items() if isinstance(why, str)}
    drawn = composition_figure(request, report) if everything or _FIGURE in request.figures else None
    # Imported late, as the makers are: the figure alone needs nothing of media.
    from sfumato_reproductions.multimedia_dp.page import Page

    page = Page(request, parts, absent, drawn, sources.told(), time.perf_counter() - begun)
    files = (page.write(), *(() if drawn is None else drawn.files))
    return Regenerated(
        title="Adaptive multimedia DP: tables 1, 2, 4 and 5 and what was measured beside them",
        # Whoever asks for everything reads the page; whoever asks for a table wants to see it.
        text=page.text(tables=not everything),
        numbers=page.numbers(),
        files=files,
    )


def _makers() -> dict[str, _Maker]:
    from sfumato_reproductions.multimedia_dp.allocation import allocation_part
    from sfumato_reproductions.multimedia_dp.calibration_loss import calibration_part
    from sfumato_reproductions.multimedia_dp.category_table import category_table
    from sfumato_reproductions.multimedia_dp.closeness import closeness_part
    from sfumato_reproductions.multimedia_dp.selection_table import selection_table
    from sfumato_reproductions.multimedia_dp.steadiness import steadiness_part
    from sfumato_reproductions.multimedia_dp.threshold_table import threshold_table
    from sfumato_reproductions.multimedia_dp.voices import voices_part

    return {
        "table 1": category_table,
        "table 2": calibration_part,
        "table 4": threshold_table,
        "table 5": selection_table,
        "allocation": allocation_part,
        "closeness": closeness_part,
        "video": steadiness_part,
        "speech": voices_part,
    }
