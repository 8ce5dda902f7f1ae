# Written by `make index` from the `__all__` of every module.
from .job_runner import Runner as Runner
