"""Protection as a service: tenants with keys, quotas and policies, and the operations they may ask for.

``names``, ``api_keys``, ``callers`` and ``trust_policy`` are plain values without a database; ``registry``
is where tenants stand, on the tables of ``tables``; ``guessing`` slows down whoever tries keys. ``service``
does what is asked: at once (``releases``), or as jobs (``jobs``) that a ``jobs_runner`` works on and whose
leavings ``job_recovery`` settles. ``tiers`` are what readers get by how far they are trusted. The ways in
are ``rest``, ``grpc_api``, the pages of ``dashboard``, and ``proxy``, which is a bucket of S3 to its
readers; they share who asks (``asking``), what is asked (``models``), how files come (``bodies``) and the
words for what is refused (``refusals``). ``workers`` are the processes that answer. Nothing is imported
here: what starts a service needs its extra.
"""

__all__: list[str] = []
