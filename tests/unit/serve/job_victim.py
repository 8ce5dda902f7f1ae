"""``python job_victim.py DATA STAGE``: work on the next job until STAGE, and wait for the end."""

import sys
import time
from pathlib import Path

from sfumato.serve.jobs.job_runner import Watch, Work
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings


class Stuck(Watch):
    """Says that it has reached a stage, and goes no further."""

    def report(self, stage, share):
        super().report(stage, share)
        if stage == sys.argv[2]:
            print(stage, flush=True)
            time.sleep(600)


if __name__ == "__main__":
    service = Service(Settings(Path(sys.argv[1])))
    record = service.job_store.table.claim("victim", 1.0)
    Work(service, "victim", 1.0).do(record, Stuck(600.0))
