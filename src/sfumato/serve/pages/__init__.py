"""Web pages: datasets and their budgets, releases, audits, the frontier explorer, keys and certificates.

Pages are rendered on the server and complete without JavaScript, which only avoids reloading. ``sign_in`` has
the sessions, ``page_request`` the requests, forms and uploads of a signed-in caller, ``page_rendering`` the
templates and headers; ``pages_app`` combines them. The other modules are the pages themselves.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

__all__: list[str] = []

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {})
