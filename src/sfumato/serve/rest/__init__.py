"""REST, version 1: what the service does, as HTTP with JSON, files and problem details."""

from sfumato.serve.rest.rest_app import make_app

__all__ = ["make_app"]
