"""The Flower app of the server: the rounds of a strategy, and what becomes of their result."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from sfumato.errors import SfumatoError
from sfumato.learners.federated.deadline_grid import DeadlineGrid
from sfumato.learners.federated.flower_records import record_of
from sfumato.learners.federated.flower_strategy import PrivateAverage
from sfumato.learners.federated.rounds import Federated

__all__ = ["make_server_app"]


def make_server_app(
    strategy_of: Callable[[Context], PrivateAverage],
    finished: Callable[[Context, Federated], None],
    failed: Callable[[Context, SfumatoError], None] | None = None,
) -> ServerApp:
    """A ``ServerApp`` that runs the rounds of ``strategy_of(context)`` and hands over to ``finished``.

    ``failed`` is told of an error that has a sentence for people before it is raised.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            strategy = strategy_of(context)
            first = record_of(strategy.federated().arrays)
            patient = cast("Grid", DeadlineGrid(grid))
            # Flower takes None for no deadline, and does not say so in the type.
            timeout = cast("float", strategy.timeout)
            strategy.start(patient, first, num_rounds=strategy.rounds, timeout=timeout)
        except SfumatoError as error:
            if failed is not None:
                failed(context, error)
            raise
        finished(context, strategy.federated())

    return app
