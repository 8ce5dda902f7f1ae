"""Pages for people: datasets and their budgets, releases, audits, the frontier, keys, and certificates.

Pages are rendered here and whole without JavaScript, which only spares waiting. ``sessions`` knows who is
signed in, ``page_request`` what one request may do, ``forms`` and ``page_uploads`` what was sent,
``page_rendering`` how things are printed; ``samples`` makes what the explorer shows. The other files are the
pages themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from sfumato.serve.auth.login_throttle import Guessing
    from sfumato.serve.service import Service

__all__ = ["make_dashboard"]


def make_dashboard(service: Service, guessing: Guessing) -> Starlette:
    """Pages for people on ``service``; ``guessing`` counts wrong keys, with those of other ways in."""
    # Not before: the pages share limits and words with REST, whose application mounts them.
    from sfumato.serve.pages.pages_app import make_dashboard as made

    return made(service, guessing)
