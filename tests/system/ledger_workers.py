"""What processes that share a ledger do; they are forked from one that has imported it, which is quick."""

import contextlib
import multiprocessing
import os
import random
import resource
import signal
import time
import uuid
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Ledger, LedgerUnavailable
from sfumato.privacy import Guarantee

_PRELOADED = ["sfumato.ledger.ledger", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"]
_KINDS = ("spend", "spend", "commit", "release")


def start(target, *arguments):
    """A process that runs ``target`` at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def spend_under_a_limit(url, bytes_a_file, report):
    """Spend until a file of the ledger may not grow any further, and report how often that went well."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))
    paid = 0
    with Ledger(url) as ledger:
        try:
            while True:
                ledger.spend("clinic", Guarantee.pure(1e-6), purpose="x" * 1000)
                paid += 1
        except LedgerUnavailable as error:
            Path(report).write_text(f"{paid}\n{error}")


def make_ledger(url, at, file):
    """Make or open a ledger at a moment agreed upon, and write down its identity."""
    time.sleep(max(0.0, at - time.time()))
    with Ledger(url) as ledger:
        ledger.open("clinic", epsilon=1.0, delta=0.0)
        Path(file).write_text(ledger.identity)


def spend_after_forking(url, children, times):
    """Use one ledger object in a parent and in its forked children at the same time."""
    with Ledger(url) as ledger:
        ledger.spend("clinic", Guarantee.pure(0.001))
        forked = []
        for _ in range(children):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    for _ in range(times):
                        ledger.spend("clinic", Guarantee.pure(0.001))
                    os._exit(0)
                os._exit(1)
            forked.append(child)
        for _ in range(times):
            ledger.spend("clinic", Guarantee.pure(0.001))
        assert all(os.waitpid(child, 0)[1] == 0 for child in forked)


def pay_and_release(url, folder, slot, guarantee):
    """Pay and release until told to stop; may be killed at any instruction and goes on where it was.

    A request is written down with its key before it is made. A release is a file named by the hash of the
    entry that pays for it, made after the entry is durable.
    """
    folder, ledger = Path(folder), Ledger(url)
    request = folder / f"request {slot}"
    while not (folder / "stop").exists():
        if not request.exists():
            (folder / f"new {slot}").write_text(f"{random.choice(_KINDS)} {uuid.uuid4()}")
            os.replace(folder / f"new {slot}", request)
        kind, key = request.read_text().split()
        try:
            _pay(ledger, kind, key, guarantee, folder / "released")
        except BudgetRefused:
            time.sleep(0.05)
            continue
        request.unlink()


def _pay(ledger, kind, key, guarantee, released):
    if kind == "spend":
        paid = ledger.spend("clinic", guarantee, key=key)
    else:
        try:
            paid = ledger.hold("clinic", guarantee, key=key)
        except BadInput as error:
            if kind == "release" and "given back" in str(error):
                return
            raise
        if kind == "release":
            ledger.release_hold("clinic", paid.number)
            return
        ledger.commit("clinic", paid.number)
    (released / paid.hash).touch()
