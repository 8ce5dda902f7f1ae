"""Web pages: datasets and their budgets, releases, audits, the frontier explorer, keys and certificates.

Pages are rendered on the server and complete without JavaScript, which only avoids reloading. ``sign_in`` has
the sessions, ``page_request`` the requests, forms and uploads of a signed-in caller, ``page_rendering`` the
templates and headers; ``pages_app`` combines them. The other modules are the pages themselves.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
