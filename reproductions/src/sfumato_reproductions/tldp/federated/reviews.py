"""IMDB reviews as rows of hashed words: the rule is public, and none of it is read off reviews."""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato_reproductions.datasets import data_file

__all__ = ["BUCKETS", "FILES", "hashed", "read"]

#: Part -> file.
FILES = {"train": "imdb_train_5000.csv.gz", "test": "imdb_test_2000.csv.gz"}
BUCKETS = 512
# Rows of length 1 teach a linear model slowly; this is as public as the rest.
_LENGTH = 8.0


def read(part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Hashed words (n, 512) and labels (n,), 1 for a positive review."""
    file = data_file("imdb", FILES[part])
    texts, labels = _columns(file)
    return hashed(texts), labels


def hashed(texts: list[str]) -> NDArray[np.float32]:
    """Which words a text has, each with a sign in one of 512 buckets (MurmurHash3), as rows of length 8."""
    from sklearn.feature_extraction.text import HashingVectorizer

    rule = HashingVectorizer(n_features=BUCKETS, alternate_sign=True, binary=True, norm="l2")
    return np.asarray(rule.transform(texts).toarray() * _LENGTH, dtype=np.float32)


def _columns(file: Path) -> tuple[list[str], NDArray[np.int64]]:
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as stream:
            rows = [(row["text"].replace("<br />", " "), int(row["label"])) for row in csv.DictReader(stream)]
    except (OSError, EOFError, zlib.error, KeyError, TypeError, ValueError, csv.Error):
        raise BadInput(f"{file} is no compressed table with the columns text and label (0 or 1).") from None
    if not rows:
        raise BadInput(f"{file} holds no rows.")
    return [text for text, _ in rows], np.array([label for _, label in rows], dtype=np.int64)
