"""Protection as a service: tenants with keys, quotas and policies, and the operations they may ask for.

``names``, ``api_keys``, ``callers`` and ``trust_policy`` are plain values without a database; ``registry`` is
where tenants stand, on the tables of ``tables``; ``guessing`` slows down whoever tries keys. ``service`` does
what is asked, for ``rest`` and ``grpc_api``; these share who asks (``asking``), what is asked (``models``),
how files come (``bodies``) and the words for what is refused (``refusals``). Nothing is imported here: what
starts a service needs its extra.
"""

__all__: list[str] = []
