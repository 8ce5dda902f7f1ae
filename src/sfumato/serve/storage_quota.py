"""How much a tenant keeps on the disk of a service, and the most that it may."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from sfumato.errors import StorageFull
from sfumato.serve.jobs.job_files import JobFiles
from sfumato.serve.resources import Resources

__all__ = ["Storage"]

# What was counted is believed for so long; what this process lets be kept meanwhile is added to it.
_SECONDS = 10.0


class Storage:
    """The bytes of releases, of files of jobs, of audits and of objects that the proxy keeps.

    Bodies of requests are not among them: they are gone when their request is. Several processes count for
    themselves, so a tenant may pass its quota by what the others let be kept within seconds.
    """

    def __init__(self, resources: Resources, files: JobFiles) -> None:
        self._resources, self._files = resources, files
        self._guard = threading.Lock()
        self._counted: dict[str, tuple[float, int]] = {}

    def most(self, tenant: str) -> int:
        """What ``tenant`` may keep: its quota or, where it has none, what the service lets any keep."""
        own = self._resources.registry.quotas(tenant).bytes_kept
        return self._resources.settings.tenant_bytes if own is None else own

    def require(self, tenant: str, size: int) -> None:
        """Raise :class:`~sfumato.errors.StorageFull` where ``size`` bytes more are more than it may keep."""
        most = self.most(tenant)
        with self._guard:
            at, kept = self._counted.get(tenant, (0.0, 0))
            # Time enough has passed, or it was counted what is gone by now.
            if time.monotonic() - at > _SECONDS or kept + size > most:
                at, kept = time.monotonic(), self.kept(tenant)
            if kept + size <= most:
                self._counted[tenant] = (at, kept + size)
                return
            self._counted.pop(tenant, None)
        raise StorageFull(
            f"the tenant keeps {kept:,} bytes here and may keep {most:,}; {size:,} more do not fit: delete "
            "releases, or ask for a larger quota."
        )

    def forget(self, tenant: str) -> None:
        """Count anew: something was deleted."""
        with self._guard:
            self._counted.pop(tenant, None)

    def kept(self, tenant: str) -> int:
        """How many bytes ``tenant`` keeps now."""
        data, jobs = self._resources.settings.data, self._resources.registry.jobs
        places = [self._resources.settings.releases / tenant, self._resources.audits / tenant]
        places.append(data / "proxy" / tenant)
        for id_, folder in self._files.all():
            record = jobs.get(id_)
            if record is not None and record.tenant == tenant:
                places.append(folder)
        return sum(_size(place) for place in places)


def _size(folder: Path) -> int:
    """The bytes of all files below ``folder``; of what goes away meanwhile, none."""
    found, waiting = 0, [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        found += entry.stat(follow_symlinks=False).st_size
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found
