"""The filesystem behind a URL, one for each process.

Endpoints and credentials come from where everybody looks for them (``AWS_ENDPOINT_URL``,
``AWS_ACCESS_KEY_ID``, ``~/.aws``, fsspec's own configuration); there is no configuration of ours.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from sfumato.errors import BadInput

__all__ = ["filesystem_for"]

_lock = threading.Lock()
_kept: dict[tuple[int, str, int], Any] = {}

#: What botocore gets unless the user says otherwise. A request is repeated once inside; with the timeouts an
#: endpoint that does not answer is known in some seconds. All further patience is ours.
_S3 = {"connect_timeout": 3, "read_timeout": 15}
_S3_ATTEMPTS = {"mode": "standard", "total_max_attempts": 2}


def filesystem_for(scheme: str) -> Any:
    """The filesystem of ``scheme``, made anew in each process and whenever the environment names another.

    Connections and event loops do not survive a fork, so that a child never uses what its parent opened.
    """
    global _lock
    settings = tuple(sorted((name, value) for name, value in os.environ.items() if _tells(name)))
    key = (os.getpid(), scheme, hash(settings))
    with _lock:
        if key not in _kept:
            _kept[key] = _made(scheme)
        return _kept[key]


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist here, and what the parent opened is closed
    # by the parent: the child keeps it untouched rather than letting it end in a loop that does not run.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _tells(name: str) -> bool:
    return name.startswith(("AWS_", "FSSPEC_", "GOOGLE_", "AZURE_")) or name.lower().endswith("_proxy")


def _made(scheme: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise BadInput(f"{scheme}:// needs fsspec: pip install 'sfumato[storage]'.") from None
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        if scheme in ("s3", "s3a"):
            raise BadInput(f"{scheme}:// needs s3fs: pip install 'sfumato[storage]'.") from None
        raise BadInput(f"{scheme}:// needs a package that is not installed: {_line(error)}.") from None
    except ValueError:
        raise BadInput(
            f"{scheme}:// is no kind of storage that is known here; s3://, gs://, file:// and whatever else"
            " fsspec knows are accepted."
        ) from None
    options = {"config_kwargs": _s3_config()} if scheme in ("s3", "s3a") else {}
    try:
        # A listing that is remembered would hide that an object has changed.
        made = kind(skip_instance_cache=True, use_listings_cache=False, **options)
    except Exception as error:
        raise BadInput(
            f"{scheme}:// cannot be used as it is configured here ({type(error).__name__});"
            " look at its settings in the environment."
        ) from None
    if scheme in ("s3", "s3a"):
        made.retries = 1  # s3fs would repeat what botocore has repeated already
    return made


def _s3_config() -> dict[str, Any]:
    """Timeouts and attempts, where neither fsspec's nor AWS's configuration says anything of them."""
    import botocore.session
    from fsspec.config import conf

    said: dict[str, Any] = dict(conf.get("s3", {}).get("config_kwargs", {}))
    config: dict[str, Any] = {**_S3, **said}
    if "retries" not in said and not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"} & set(os.environ):
        try:
            profile = set(botocore.session.Session().get_scoped_config())
        except Exception:  # a broken ~/.aws/config: the first request says so
            profile = set()
        if not {"max_attempts", "retry_mode"} & profile:
            config["retries"] = dict(_S3_ATTEMPTS)
    return config


def _line(error: ImportError) -> str:
    return " ".join(str(error).split()).rstrip(".")
