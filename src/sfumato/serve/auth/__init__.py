"""Authentication and authorisation: API keys, callers, tenants, trust policies and the login throttle."""

__all__: list[str] = []
