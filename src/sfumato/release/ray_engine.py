"""The cluster engine: Ray Data hands pieces to workers, and those of a lost worker to another one.

**Exactly once.** A worker may die at any moment, also after a piece has appeared and before that was
reported. The piece is then drawn again, from noise that is keyed by the unit: it replaces itself, byte for
byte, so that no second draw ever leaves the cluster. All pieces were paid for before the first one was drawn.

**What leaves this process.** The parameters and the secret that keys the noise are sent to the workers of
one's own cluster. A cluster that is started here listens on the loopback alone, requires a token that this
process has made up, keeps its files in a private folder that is removed at the end, and sends no usage
statistics.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, cast

from sfumato.errors import BadInput, StorageFailed
from sfumato.noise import THREADS, inner_threads, processors, secrets_travel
from sfumato.release.engines import Engine, outcomes

__all__ = ["keep_ray_private"]

_MODE = "RAY_AUTH_MODE"
# Ray's switch for clusters of one machine, on its loopback; on Linux others could reach the ports otherwise.
_LOOPBACK = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


def keep_ray_private() -> None:
    """Let clusters of this process listen on the loopback only, and require a token.

    Other users of the machine reach the loopback too. Ray reads both settings when it is imported: if that
    was before, without a token, no cluster is started. One that runs already is used as it is, and a token of
    one's own, in a file or in the environment, stays in use.
    """
    ray: Any = sys.modules.get("ray")
    if ray is not None and os.environ.get(_MODE) != "token":
        if ray.is_initialized():
            return
        raise BadInput(
            "Ray was imported before it could be told to keep others out: call ray.init() yourself, or set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN before Python starts."
        )
    os.environ.setdefault(*_LOOPBACK)
    os.environ.setdefault(_MODE, "token")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextmanager
def ray_folder() -> Iterator[str]:
    """Yield a folder for a cluster's files, which is removed at the end.

    Ray makes the folder that it is given readable for everybody; the folder around it is private.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as folder:
        inside = Path(folder, "ray")
        inside.mkdir()
        yield str(inside)


# Most pieces of one task: enough that handing it out costs little, few enough that losing it does too.
_TASK_PIECES = 256
# Tasks for each worker, so that the last ones end at about the same time.
_TASKS_A_WORKER = 8
_STORE_BYTES = 128 << 20
# Seconds in which a cluster takes a connection.
_CONNECTING = 10.0
# Messages of Ray that would be printed otherwise.
_QUIET = (("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"), ("RAY_IGNORE_UNHANDLED_ERRORS", "1"))
# A cluster on one machine does not grow, so it needs no autoscaler; its workers have normal priority.
_OF_ONE_MACHINE = (("RAY_DATA_CLUSTER_AUTOSCALER", "V1"), ("RAY_worker_niceness", "0"))


class RayEngine(Engine):
    """Workers of a Ray cluster that is running; :func:`ray_engine` starts one."""

    retries = True

    def __init__(self, workers: int, waking: Sequence[Any] = ()) -> None:
        self.workers = workers
        self._waking = waking

    def in_memory(self, count: int) -> bool:
        """Return False: results come from workers."""
        return False

    def _run(
        self, work: Callable[[Any], Any], pieces: Sequence[Any], take: Callable[[list[Any]], None]
    ) -> None:
        import ray

        # A task that finds no worker ready would have one more started, which makes all of them late.
        if self._waking:
            ray.wait(list(self._waking), num_returns=len(self._waking))
        size = max(1, min(_TASK_PIECES, len(pieces) // (_TASKS_A_WORKER * self.workers)))
        tasks = [{"pieces": pickle.dumps(pieces[at : at + size])} for at in range(0, len(pieces), size)]
        with secrets_travel():  # to workers of one's own, who draw the noise
            task = _Task(ray.put(work))
        given = ray.data.from_items(tasks, override_num_blocks=len(tasks))
        at_once = ray.data.TaskPoolStrategy(size=self.workers)
        answers = given.map(task, num_cpus=1, max_retries=-1, compute=at_once)
        for answer in answers.iter_rows():
            found = pickle.loads(answer["outcomes"])
            if isinstance(found, StorageFailed):
                raise found
            take(found)


class _Task:
    """Does ``work``, which lies in the cluster, on the pieces of one row."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import ray

        _use_one_processor()
        work = ray.get(self._work)
        try:
            with inner_threads(1):
                found: Any = outcomes(work, pickle.loads(row["pieces"]))
        except StorageFailed as error:
            found = error
        return {"outcomes": pickle.dumps(found)}


@contextmanager
def ray_engine(workers: int | None = None) -> Iterator[RayEngine]:
    """Yield an engine on the cluster at ``RAY_ADDRESS`` or, without it, on ``workers`` of this machine."""
    # Before the import: it reads this once.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in _QUIET:
        os.environ.setdefault(name, value)
    if not os.environ.get("RAY_ADDRESS"):
        keep_ray_private()
    try:
        import ray
        import ray.data
    except ImportError:
        raise BadInput("the engine ray needs a package: pip install 'sfumato[cluster]'.") from None
    if ray.is_initialized():
        yield RayEngine(workers or _processors())
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    with (
        ray_folder() as folder,
        # Ray prints on standard output which workers died; that is for results.
        redirect_stdout(sys.stderr),
    ):
        if address := os.environ.get("RAY_ADDRESS"):
            _check_reachable(address)
            ray.init(**quiet)
        else:
            for name, value in _OF_ONE_MACHINE:
                os.environ.setdefault(name, value)
            ray.init(
                address="local",
                num_cpus=workers or processors(),
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                _temp_dir=folder,
                **quiet,
            )
        try:
            _hush()
            count = workers or _processors()
            wake = ray.remote(num_cpus=1)(_wake)
            # Workers get ready while this process loads the rest and lists files.
            yield RayEngine(count, [wake.remote() for _ in range(count)])
        finally:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse a cluster that does not answer; Ray itself would wait for minutes."""
    found = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d{1,5})", address)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=_CONNECTING).close()
    except (OSError, OverflowError):
        raise BadInput(
            f"no cluster answers at {address}: start it, or unset RAY_ADDRESS to have one on this machine."
        ) from None


def _use_one_processor() -> None:
    """Limit this worker to one processor; another worker has the next."""
    os.environ[THREADS] = os.environ["OPENCV_FOR_THREADS_NUM"] = "1"


def _wake() -> None:
    """Import what most pieces need, and exclude it from garbage collection."""
    _use_one_processor()
    import sfumato.release.folder
    import sfumato.release.media_files
    import sfumato.release.record_files  # noqa: F401

    gc.freeze()


def _processors() -> int:
    """Return how many tasks the cluster can run at once."""
    import ray

    resources = cast("Callable[[], dict[str, float]]", ray.cluster_resources)()
    return max(1, int(resources.get("CPU", 1)))


def _hush() -> None:
    """Turn off the progress bars and log lines of Ray Data."""
    import logging
    import warnings

    import ray
    from ray.util.annotations import RayDeprecationWarning

    # The deprecation warning of V1 is for maintainers.
    warnings.filterwarnings("ignore", category=RayDeprecationWarning)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.enable_operator_progress_bars = False
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
