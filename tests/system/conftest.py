"""Fixtures of the tests of the real command: records, and the statement beside an output."""

import base64
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from command_fixtures import called, command, executable, folder  # noqa: F401
from sfumato.privacy import Statement


@pytest.fixture(scope="session")
def heeding():
    """The words of a command that Ctrl-C reaches, whatever the tests themselves were started to ignore."""

    def words(*program):
        # The program resets the signal itself: code between fork and exec may hang or abort beside threads.
        reset = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL)"
        return [sys.executable, "-c", f"{reset}; os.execv(sys.argv[1], sys.argv[1:])", *map(str, program)]

    return words


@pytest.fixture(scope="session")
def digits():
    """Real records: 1,797 images of 64 pixels in [0, 1], float32, and their labels."""
    data = load_digits()
    return (data.data / 16.0).astype(np.float32), data.target


@pytest.fixture
def statement_beside():
    """Reads the certificate of an output, whose statement must parse back to an equal one."""

    def read(output):
        document = certified(output)
        statement = Statement.from_dict(document["statement"])
        assert statement.to_dict() == document["statement"]
        assert Statement.from_json(statement.to_json()) == statement
        return statement, document

    return read


def certified(output):
    """What the certificate beside ``output`` says of it; the digest must be that of its bytes."""
    envelope = json.loads(Path(f"{output}.cert.json").read_text("utf-8"))
    document = json.loads(base64.b64decode(envelope["payload"]))
    (subject,) = document["subject"]
    assert subject["name"] == Path(output).name
    assert subject["digest"]["sha256"] == hashlib.sha256(Path(output).read_bytes()).hexdigest()
    return document["predicate"]
