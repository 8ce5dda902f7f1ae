"""Where the proxy stands in an application: at a prefix, with or without the slash after it."""

from __future__ import annotations

from starlette.routing import Match, Mount
from starlette.types import Scope

from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.proxy.s3_app import make_proxy
from sfumato.serve.service import Service

__all__ = ["ProxyMount", "proxy_mount"]


class ProxyMount(Mount):
    """A mount that its bare prefix reaches too, and names of every kind.

    Clients ask for the list of buckets there and sign the path as they write it: a redirect to the prefix
    with a slash would be refused for its signature. A name with a line break is the proxy's to refuse.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the request is for the proxy."""
        root = scope.get("root_path", "")
        place = f"{root}{self.path}"
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path == place or path.startswith(f"{place}/")):
            return Match.NONE, {}
        return Match.FULL, {
            "path_params": dict(scope.get("path_params", {})),
            "app_root_path": scope.get("app_root_path", root),
            "root_path": place,
            "endpoint": self.app,
        }


def proxy_mount(service: Service, guessing: Guessing, path: str = "/s3") -> ProxyMount:
    """The route that answers everything at and below ``path``."""
    return ProxyMount(path, make_proxy(service, guessing))
