"""Ways to run the command: as people do, or in this process where many calls are made."""

import base64
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.cli import main
from sfumato.privacy import Statement


@dataclass(frozen=True)
class Ran:
    """What one run of the command answered, and what it left in its folder."""

    code: int
    out: str
    err: str
    appeared: frozenset[str]

    @property
    def sentence(self):
        """The one sentence of a refusal; everything that a refusal promises is checked on the way."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        assert self.err.count("\n") == 1
        assert self.err.endswith((".\n", "?\n"))
        assert self.err.startswith("sfumato: ")
        assert "Traceback" not in self.err
        assert self.appeared == frozenset()
        return self.err.removeprefix("sfumato: ").rstrip("\n")

    @property
    def result(self):
        """The JSON object of a run with --json."""
        assert self.code == 0, (self.code, self.out, self.err)
        assert self.err == ""
        return json.loads(self.out)

    @property
    def partial(self):
        """The JSON object of a run with --json that had to leave files out."""
        assert self.code == 5, (self.code, self.out, self.err)
        assert self.err == ""
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that both kinds of run happen in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def executable():
    """The installed command, beside the interpreter."""
    return str(Path(sys.executable).with_name("sfumato"))


@pytest.fixture
def command(folder, executable):
    """Runs the installed command in its own process."""

    def run(*arguments, **environment):
        before = set(os.listdir(folder))
        done = subprocess.run(
            [executable, *map(str, arguments)],
            cwd=folder,
            env=os.environ | {"COLUMNS": "100"} | environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        appeared = frozenset(set(os.listdir(folder)) - before)
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode(), appeared)

    return run


@pytest.fixture(scope="session")
def heeding():
    """The words of a command that Ctrl-C reaches, whatever the tests themselves were started to ignore."""

    def words(*command):
        # The program resets the signal itself: code between fork and exec may hang or abort beside threads.
        reset = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL)"
        return [sys.executable, "-c", f"{reset}; os.execv(sys.argv[1], sys.argv[1:])", *map(str, command)]

    return words


@pytest.fixture
def called(folder):
    """Runs the command line in this process, which saves starting an interpreter."""

    def run(*arguments):
        before = set(os.listdir())
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(word) for word in arguments])
            except SystemExit as end:
                code = end.code
        return Ran(code, out.getvalue(), err.getvalue(), frozenset(set(os.listdir()) - before))

    return run


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
