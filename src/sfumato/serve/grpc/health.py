"""Health: the process is alive where it answers, our service is ready where it could release something."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grpc_health.v1 import health, health_pb2  # type: ignore[import-untyped]

from sfumato.serve.grpc.sfumato_pb2 import DESCRIPTOR
from sfumato.serve.grpc.threads import finished
from sfumato.serve.readiness import Readiness

__all__ = ["NAME", "Health"]

#: Of the service, as reflection and health know it.
NAME: str = DESCRIPTOR.services_by_name["Sfumato"].full_name


class Health(health.aio.HealthServicer):  # type: ignore[misc]
    """Says whether our service could release something; without a name, whether the process answers."""

    def __init__(self, readiness: Readiness) -> None:
        super().__init__()
        # Threads of their own: those of calls may all be at work.
        self._readiness, self._threads = readiness, ThreadPoolExecutor(2, "sfumato-health")

    async def Check(self, request: Any, context: Any) -> Any:
        """SERVING or not; a service that is not here is not found."""
        answer = await super().Check(request, context)
        if request.service == NAME and await finished(self._threads, self._readiness.trouble):
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
        return answer
