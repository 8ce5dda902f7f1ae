"""The service: tenants with keys, quotas and policies, and the operations that they may request.

``authentication`` (keys, roles, callers) and ``trust_policy`` are plain values without a database.
``tenant_registry`` stores tenants, on the tables of ``registry_database``. ``service`` has the operations:
synchronous ones (``release_store``), and jobs (``jobs.job_lifecycle``), which ``jobs.job_runner`` runs and
recovers. ``reader_tiers`` are the tiers that readers get by how far they are trusted. The interfaces are
``rest``, ``grpc``, ``pages`` and ``proxy``, an S3 bucket to its readers; they share request models
(``request_models``), uploads (``request_files``) and refusal codes (``refusal_codes``). ``workers`` are the
processes that answer. Nothing is imported here, because the extra ``serve`` may be missing.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
