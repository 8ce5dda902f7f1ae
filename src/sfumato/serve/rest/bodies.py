"""Bodies of requests: no longer than is allowed, whatever their headers say."""

from __future__ import annotations

from pathlib import Path

from fastapi import Request

from sfumato.serve.bodies import require_size, written

__all__ = ["received"]


async def received(request: Request, into: Path, limit: int) -> None:
    """Write the body of ``request`` to ``into``; one that announces too much is not even read."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        require_size(int(announced), limit)
    await written(request.stream(), into, limit)
