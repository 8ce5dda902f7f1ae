"""The engines by the names people type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.errors import BadInput
from sfumato.release.engine_interface import Engine, LocalEngine
from sfumato.release.suggestions import chosen

__all__ = ["ENGINES", "opened_engine"]

ENGINES = ("local", "ray")


@contextmanager
def opened_engine(name: str = "local", workers: int | None = None) -> Iterator[Engine]:
    """The engine ``name`` with ``workers``, or as many as there are processors, while the block lasts."""
    if workers is not None and workers < 1:
        raise BadInput(f"`workers` was {workers}", parameter="workers", accepted="1 or more")
    if chosen(name, ENGINES, "engine") == "local":
        yield LocalEngine(workers)
        return
    from sfumato.release.ray_engine import ray_engine

    with ray_engine(workers) as engine:
        yield engine
