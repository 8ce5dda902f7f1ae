"""Fixtures of tests that run the command: a home folder, a folder to run in, and the two ways to run it."""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


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


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory):
    """A home folder of Sfumato for the tests of this process."""
    folder = tmp_path_factory.mktemp("sfumato-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_HOME", str(folder))
        patch.delenv("SFUMATO_LEDGER", raising=False)
        patch.delenv("SFUMATO_PASSPHRASE", raising=False)
        yield folder


@pytest.fixture
def called(folder):
    """Runs the command line in this process, which saves starting an interpreter."""

    from sfumato.cli import main

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
