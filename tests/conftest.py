"""What all tests share: no test touches the keys or the ledger of whoever runs it; counts are printed."""

import gc
import html
import os
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings

from command_fixtures import home  # noqa: F401
from quick_audits import bounds_only, few_trees, quick_attackers, quick_classifiers  # noqa: F401

# A test run says the same twice: what decides over a change draws the same examples on every machine.
# `make explore` draws fresh ones, to find what nobody thought of.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("SFUMATO_EXAMPLES", "same"))
# Processes that tests start read the bytecode of one another; without it, each compiles the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# How many are killed in `make soak`.
_SOAKS = ("SFUMATO_SOAK_KILLS", "SFUMATO_SOAK_SERVE")


@pytest.fixture
def reproduced():
    """Runs every command that a report prints under "How to reproduce", and returns them."""
    from sfumato.cli import main

    def run(page):
        start = page.index('aria-label="Commands and versions">')
        text = html.unescape(page[page.index(">", start) + 1 : page.index("</pre>", start)])
        commands = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert commands
        for line in commands:
            program, *words = shlex.split(line)
            assert program == "sfumato"
            with pytest.raises(SystemExit) as ended:
                main(words)
            assert ended.value.code == 0, line
        return commands

    return run


@pytest.fixture(scope="session")
def self_signed(tmp_path_factory):
    """A certificate of localhost that nobody else vouches for, and its key: two files of PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "certificate.pem", folder / "key.pem"


def pytest_collection_finish():
    """Leave what collecting made out of every later garbage collection, which takes a second with it."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """Print what tests counted, also when they ran in other processes."""
    reports = terminalreporter.stats.get("passed", [])
    counts = [value for report in reports for name, value in report.user_properties if name == "count"]
    if counts:
        terminalreporter.section("counted")
        for line in counts:
            terminalreporter.line(line)
    page = os.environ.get("SFUMATO_SOAK_PAGE")
    if page is not None and counts and not {"failed", "error"} & set(terminalreporter.stats):
        Path(page).write_text(soak_page(counts), "utf-8")


def soak_page(counts):
    """What a long run counted, as a page."""
    words = " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if name in _SOAKS)
    lines = "".join(f"- {line}\n" for line in counts)
    return (
        "# Killed under load\n"
        "Written by `make soak`, which sets how many processes are killed (`kill -9`) and asserts all\n"
        f"that the tests of a few kills assert. This run: {words or 'a few'}, {datetime.now(UTC):%Y-%m-%d}, "
        f"{os.cpu_count()} cores, all passed.\n\n{lines}"
    )
