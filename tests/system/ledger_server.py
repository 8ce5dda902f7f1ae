"""A real PostgreSQL server of our own, in a temporary folder, that answers on a socket there only."""

import glob
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgresql():
    """Makes the URL of a new, empty database on a server that lasts for the session."""
    psycopg = pytest.importorskip("psycopg", reason="the driver psycopg is not installed")
    folder = Path(tempfile.mkdtemp(prefix="sfumato-pg-"))
    run = _runner(folder)
    try:
        run("initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
        run("pg_ctl", "-D", folder / "data", "-o", options, "-l", folder / "log", "-w", "start")
        try:
            numbers = itertools.count(1)
            server = {"host": str(folder), "user": "postgres", "dbname": "postgres", "autocommit": True}

            def make():
                name = f"ledger{next(numbers)}"
                with psycopg.connect(**server) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                return f"postgresql://postgres@/{name}?host={folder}"

            yield make
        finally:
            run("pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _runner(folder):
    """Runs a program of PostgreSQL, which refuses to be root, as the user postgres where we are root."""
    programs = _programs()
    prefix = []
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        # It stands where a short PATH does not look.
        runuser = shutil.which("runuser", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))
        if runuser is None:
            pytest.skip("PostgreSQL does not run as root, and there is no runuser")
        shutil.chown(folder, "postgres")
        prefix = [runuser, "-u", "postgres", "--"]

    def run(program, *arguments):
        command = [*prefix, programs / program, *arguments]
        # The server inherits these: a pipe would stay open for as long as it runs.
        with open(folder / "output", "a+") as output:
            done = subprocess.run(
                list(map(str, command)), stdout=output, stderr=output, cwd=folder, timeout=60
            )
            output.seek(0)
            assert done.returncode == 0, output.read()

    return run


def _programs():
    """The folder of initdb and pg_ctl."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    if shutil.which("pg_config"):
        folders.insert(0, subprocess.check_output(["pg_config", "--bindir"], text=True).strip())
    folders += [str(Path(found).parent) for found in [shutil.which("initdb")] if found]
    for folder in map(Path, folders):
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
