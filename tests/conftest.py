"""What all tests share: no test touches the keys or the ledger of whoever runs it; counts are printed."""

import os

import pytest
from hypothesis import settings

# A test run says the same twice: what decides over a change draws the same examples on every machine.
# `make explore` draws fresh ones, to find what nobody thought of.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("SFUMATO_EXAMPLES", "same"))


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory):
    """A home folder of Sfumato for the tests of this process."""
    folder = tmp_path_factory.mktemp("sfumato-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_HOME", str(folder))
        patch.delenv("SFUMATO_LEDGER", raising=False)
        patch.delenv("SFUMATO_PASSPHRASE", raising=False)
        yield folder


def pytest_terminal_summary(terminalreporter):
    """Print what tests counted, also when they ran in other processes."""
    reports = terminalreporter.stats.get("passed", [])
    counts = [value for report in reports for name, value in report.user_properties if name == "count"]
    if counts:
        terminalreporter.section("counted")
        for line in counts:
            terminalreporter.line(line)
