"""A Ray cluster of this process alone: on the loopback, with a token, telling nobody that it runs."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput

__all__ = ["keep_ray_private", "ray_folder"]

_MODE = "RAY_AUTH_MODE"
# Ray's switch for clusters of one machine, on its loopback; on Linux others could reach the ports otherwise.
_LOOPBACK = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


def keep_ray_private() -> None:
    """Let clusters of this process listen on the loopback, and obey nobody without its token.

    Other users of the machine reach the loopback too. Ray asks for both when it is imported: where that was
    before, without a token, no cluster is started. One that runs already is taken as it is, and a token of
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
    """A folder for a cluster's files, which is gone at the end.

    Ray lets everybody into the folder that it is given; into the one around it nobody can go.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as folder:
        inside = Path(folder, "ray")
        inside.mkdir()
        yield str(inside)
