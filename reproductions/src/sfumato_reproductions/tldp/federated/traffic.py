"""NSL-KDD connections as rows of numbers: bounds and categories are declared, not read off records."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato_reproductions.datasets import data_file

__all__ = ["COLUMNS", "FILE", "features", "read"]

FILE = "nslkdd_train20pct.csv.gz"

# Categories as the data set's description lists them; of services, of which there are seventy, a bucket.
_PROTOCOLS = ("icmp", "tcp", "udp")
_FLAGS = ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH")
_SERVICES = 16
#: Counts -> the largest that is told apart; they enter as log(1 + count) over that of the bound.
_COUNTS: Mapping[str, float] = {
    "duration": 60_000.0,
    "src_bytes": 1e9,
    "dst_bytes": 1e9,
    "wrong_fragment": 3.0,
    "urgent": 3.0,
    "hot": 100.0,
    "num_failed_logins": 5.0,
    "num_compromised": 1000.0,
    "num_root": 1000.0,
    "num_file_creations": 100.0,
    "num_shells": 5.0,
    "num_access_files": 10.0,
    "count": 511.0,
    "srv_count": 511.0,
    "dst_host_count": 255.0,
    "dst_host_srv_count": 255.0,
}
_RATES = (
    "serror_rate",
    "srv_serror_rate",
    "rerror_rate",
    "srv_rerror_rate",
    "same_srv_rate",
    "diff_srv_rate",
    "srv_diff_host_rate",
    "dst_host_same_srv_rate",
    "dst_host_diff_srv_rate",
    "dst_host_same_src_port_rate",
    "dst_host_srv_diff_host_rate",
    "dst_host_serror_rate",
    "dst_host_srv_serror_rate",
    "dst_host_rerror_rate",
    "dst_host_srv_rerror_rate",
)
_FLAGGED = ("land", "logged_in", "root_shell", "is_guest_login")
COLUMNS = len(_COUNTS) + len(_RATES) + len(_FLAGGED) + len(_PROTOCOLS) + len(_FLAGS) + _SERVICES


def read() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Connections (n, 65) in [0, 1] and labels (n,), 0 for normal traffic and 1 for an attack."""
    file = data_file("nsl-kdd", FILE)
    rows = _rows(file)
    try:
        made = np.array([features(row) for row in rows], dtype=np.float32)
        labels = np.array([row["attack"] != "normal" for row in rows], dtype=np.int64)
    except (KeyError, TypeError, ValueError):
        raise BadInput(f"{file} is no table of NSL-KDD with its column names.") from None
    return made, labels


def features(row: Mapping[str, str]) -> list[float]:
    """One connection: counts, rates, flags, then protocol, flag and a bucket of the service, one of each."""
    counts = [np.log1p(min(max(float(row[name]), 0.0), top)) / np.log1p(top) for name, top in _COUNTS.items()]
    rates = [min(max(float(row[name]), 0.0), 1.0) for name in (*_RATES, *_FLAGGED)]
    bucket = zlib.crc32(row["service"].encode()) % _SERVICES
    chosen = [row["protocol_type"] == name for name in _PROTOCOLS] + [row["flag"] == name for name in _FLAGS]
    return [*counts, *rates, *map(float, chosen), *(float(bucket == place) for place in range(_SERVICES))]


def _rows(file: Path) -> list[dict[str, str]]:
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error):
        raise BadInput(f"{file} is no compressed table.") from None
    if not rows:
        raise BadInput(f"{file} holds no rows.")
    return rows
