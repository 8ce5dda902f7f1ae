"""The command that looks for spends that a restored ledger has forgotten."""

import json
import shutil

import numpy as np
import pytest

from sfumato.cli import main
from sfumato.ledger import Ledger
from sfumato.mechanisms import Laplace
from sfumato.release import protect
from sfumato.reports import KeyRing


@pytest.fixture
def command(capsys):
    """Runs the command and returns its code and what it printed."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["serve", *map(str, words)])
        return ended.value.code, capsys.readouterr().out

    return run


def test_lost_spends_are_named_and_charged_once(tmp_path, command):
    data, away = tmp_path / "service", tmp_path / "copies"
    for folder in (data, away):
        folder.mkdir(mode=0o700)
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    keys = KeyRing(data / "keys")
    keys.signing_or_new()
    with Ledger(f"sqlite:///{data / 'ledger.db'}") as ledger:
        ledger.open("ward", 1.0, 0.0)
    shutil.copy(data / "ledger.db", tmp_path / "backup.db")
    with Ledger(f"sqlite:///{data / 'ledger.db'}") as ledger:
        for place in (data / "a.npy", away / "b.npy"):
            words = {"dataset": "ward", "ledger": ledger, "keys": keys}
            protect(tmp_path / "x.npy", place, Laplace(epsilon=0.3, clip=1.0), **words)
    assert command("--data", data, "lost-spends", away) == (0, "0 spends are lost.\n")
    for file in data.glob("ledger.db*"):
        file.unlink()
    shutil.copy(tmp_path / "backup.db", data / "ledger.db")
    code, told = command("--data", data, "lost-spends")
    assert (code, told) == (4, "entry 2 of ward is lost\n1 spends are lost.\n")
    for _ in range(2):
        code, told = command("--data", data, "lost-spends", away, "--charge", "--json")
        assert code == 0
        lost = [{"dataset": "ward", "entry": 2}, {"dataset": "ward", "entry": 3}]
        assert json.loads(told) == {"lost": lost, "charged": ["spend", "spend"]}
    with Ledger(f"sqlite:///{data / 'ledger.db'}") as ledger:
        assert ledger.balance("ward").spends == 2
