"""What all tests share: no test touches the keys or the ledger of whoever runs it; counts are printed."""

import pytest


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
