"""Jobs: their life cycle, table, runner and recovery; the executor for requests that wait."""

__all__: list[str] = []
