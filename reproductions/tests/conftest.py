"""What the tests of the papers share: a quick run, listened to."""

import sys

import pytest

from command_fixtures import called, command, executable, folder, home  # noqa: F401
from quick_audits import quick_attackers, quick_classifiers  # noqa: F401
from sfumato_reproductions import regenerate


@pytest.fixture(scope="module")
def heard() -> list[tuple[str, float]]:
    """What the run reports of its progress."""
    return []


@pytest.fixture(scope="module")
def made_quickly(tmp_path_factory, heard, quick_attackers):  # noqa: F811
    """Makes a paper quickly in a folder that is not there yet, and sees that no window system is chosen."""

    def made(name, **wanted):
        output = tmp_path_factory.mktemp("papers") / "made on the way"
        before = "matplotlib.pyplot" in sys.modules
        found = regenerate(
            name, output, lambda stage, share: heard.append((stage, share)), quick=True, **wanted
        )
        assert ("matplotlib.pyplot" in sys.modules) == before
        return found

    return made
