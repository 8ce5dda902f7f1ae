"""What all tests share: no test touches the keys or the ledger of whoever runs it."""

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
