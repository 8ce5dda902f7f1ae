"""Protection as a service: tenants with keys, quotas and policies, and the operations they may ask for.

``names``, ``api_keys``, ``callers`` and ``trust_policy`` are plain values without a database; ``registry`` is
where tenants stand, on the tables of ``tables``; ``guessing`` slows down whoever tries keys. ``service`` does
what is asked, for ``rest`` and all else. Nothing is imported here: what starts a service needs its extra.
"""

__all__: list[str] = []
