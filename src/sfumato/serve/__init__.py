"""The service: tenants with keys, quotas and policies, and the operations that they may request.

``authentication`` (keys, roles, callers) and ``trust_policy`` are plain values without a database.
``tenant_registry`` stores tenants, on the tables of ``registry_database``. ``service`` has the operations:
synchronous ones (``release_store``), and jobs (``jobs.job_lifecycle``), which ``jobs.job_runner`` runs and
recovers. ``reader_tiers`` are the tiers that readers get by how far they are trusted. The interfaces are
``rest``, ``grpc``, ``pages`` and ``proxy``, an S3 bucket to its readers; they share request models
(``request_models``), uploads (``request_files``) and refusal codes (``refusal_codes``). ``workers`` are the
processes that answer. Nothing is imported here, because the extra ``serve`` may be missing.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.serve.server import run as run
    from sfumato.serve.service import Service as Service
    from sfumato.serve.settings import Listening as Listening
    from sfumato.serve.settings import Settings as Settings
    from sfumato.serve.tenant_registry import Registry as Registry
    from sfumato.serve.tenant_registry import Tenant as Tenant

__all__ = ["Listening", "Registry", "Service", "Settings", "Tenant", "run"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "run": "server",
            "Service": "service",
            "Listening": "settings",
            "Settings": "settings",
            "Registry": "tenant_registry",
            "Tenant": "tenant_registry",
        },
    )
