"""Protection as a service: tenants with keys, quotas and policies, and the operations they may ask for.

``auth.dataset_names``, ``auth.api_keys``, ``auth.callers`` and ``auth.trust_policy`` are plain values without
a database; ``registry`` is where tenants stand, on the tables of ``registry_tables``; ``auth.login_throttle``
slows down whoever tries keys. ``service`` does what is asked: at once (``release_store``), or as jobs
(``jobs.job_lifecycle``) that a ``jobs.job_runner`` works on and whose leavings ``jobs.job_recovery`` settles.
``reader_tiers`` are what readers get by how far they are trusted. The ways in are ``rest``, ``grpc``, the
pages of ``pages``, and ``proxy``, which is a bucket of S3 to its readers; they share who asks
(``auth.authentication``), what is asked (``request_models``), how files come (``request_files``) and the
words for what is refused (``refusal_codes``). ``workers`` are the processes that answer. Nothing is imported
here: what starts a service needs its extra.
"""

__all__: list[str] = []
