"""What the command says when it is stopped from outside."""

import signal

import pytest

from sfumato.cli.terminal import Stopped


@pytest.mark.parametrize(
    ("number", "cause"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "stopped by SIGTERM")]
)
def test_a_stopped_command_says_what_stays(number, cause):
    stop = Stopped(number)
    assert stop.exit_code == 128 + number
    assert stop.sentence == f"{cause} before it was done; nothing unfinished was left behind."
    stop.add_note("2 files stand in out without a manifest and belong to no release")
    assert stop.sentence.endswith("done; 2 files stand in out without a manifest and belong to no release.")
