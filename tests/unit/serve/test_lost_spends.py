"""An old ledger in place of the newest: forgotten spends are found by certificates, and charged again."""

import shutil

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.mechanisms import Laplace
from sfumato.noise import Keyed
from sfumato.pipeline import protect
from sfumato.report import KeyRing, verify
from sfumato.serve.lost_spends import charge_again, lost_spends


@pytest.fixture
def place(tmp_path):
    """A folder with something to release, a key that signs, and a budget of ε = 1."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    KeyRing(tmp_path / "keys").signing_or_new()
    with Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.open("ward", 1.0, 0.0)
        ledger.open("other", 1.0, 0.0)
    return tmp_path


def released(place, name, epsilon=0.3, dataset="ward"):
    with Ledger(f"sqlite:///{place / 'ledger.db'}") as ledger:
        protect(
            place / "x.npy",
            place / name,
            Laplace(epsilon=epsilon, clip=1.0),
            dataset=dataset,
            ledger=ledger,
            keys=KeyRing(place / "keys"),
        )


def backed_up(place):
    """Set the ledger aside; returns what puts it back in place of the newest."""
    kept = place / "backup.db"
    shutil.copy(place / "ledger.db", kept)

    def restore():
        for file in place.glob("ledger.db*"):
            file.unlink()
        shutil.copy(kept, place / "ledger.db")

    return restore


def test_spends_that_an_old_ledger_forgot_are_found_and_charged_once(place):
    released(place, "a.npy")
    restore = backed_up(place)
    released(place, "b.npy")
    released(place, "c.npy", 0.2, "other")
    keys = KeyRing(place / "keys")
    with Ledger(f"sqlite:///{place / 'ledger.db'}") as ledger:
        assert lost_spends(place.glob("*.cert.json"), keys, ledger) == []
    restore()
    with Ledger(f"sqlite:///{place / 'ledger.db'}") as ledger:
        assert ledger.balance("ward").spends == 1  # it would let b's share be spent a second time
        assert ledger.check() == []  # and is in order in itself: nothing inside it tells
        assert verify(place / "a.npy", keys, ledger).holds
        forgotten = verify(place / "b.npy", keys, ledger)
        assert not forgotten.holds
        assert [check.what for check in forgotten.checks if check.outcome == "fails"] == ["ledger"]
        lost = lost_spends(place.glob("*.cert.json"), keys, ledger)
        assert [(one.dataset, one.number) for one in lost] == [("other", 2), ("ward", 3)]
        for _ in range(2):
            for one in lost:
                assert charge_again(one, ledger).kind == "spend"
        assert (ledger.balance("ward").spends, ledger.balance("other").spends) == (2, 1)
        assert ledger.balance("ward").used == pytest.approx(0.6)


def test_a_budget_that_cannot_pay_again_is_closed(place):
    restore = backed_up(place)
    released(place, "a.npy", 0.6)
    restore()
    released(place, "b.npy", 0.7)  # somebody went on before anybody looked
    with Ledger(f"sqlite:///{place / 'ledger.db'}") as ledger:
        (lost,) = lost_spends(place.glob("*.cert.json"), KeyRing(place / "keys"), ledger)
        assert charge_again(lost, ledger).kind == "close"
        assert ledger.balance("ward").state == "closed"


def test_certificates_that_say_nothing_of_this_ledger_are_passed_over(place):
    released(place, "a.npy")
    strangers = KeyRing(place / "strangers")
    strangers.signing_or_new()
    with Ledger(f"sqlite:///{place / 'another.db'}") as another:
        another.open("ward", 1.0, 0.0)
        assert lost_spends(place.glob("*.cert.json"), KeyRing(place / "keys"), another) == []
    with Ledger(f"sqlite:///{place / 'ledger.db'}") as ledger:
        (place / "b.npy.cert.json").write_text("{}")
        assert lost_spends(place.glob("*.cert.json"), strangers, ledger) == []
        assert lost_spends(place.glob("*.cert.json"), KeyRing(place / "keys"), ledger) == []


def keyed_release(place, values, name):
    """A release under the request "monday", as the service makes it: with noise keyed by its secret."""
    np.save(place / "x.npy", values)
    keys = KeyRing(place / "keys")
    noise = Keyed(keys.noise_secret(), dataset="ward", version="1", release="request monday")
    with Ledger(f"sqlite:///{place / 'ledger.db'}") as ledger:
        protect(
            place / "x.npy",
            place / name,
            Laplace(epsilon=0.3, clip=10.0, randomness=noise),
            dataset="ward",
            ledger=ledger,
            request="monday",
            keys=keys,
        )
    return np.load(place / name)


@pytest.mark.parametrize("renewed", [False, True])
def test_a_forgotten_request_is_safe_only_under_a_new_noise_secret(place, renewed):
    """An old ledger takes a request again for other content: under the old secret it shows what changed."""
    first = np.random.default_rng(1).normal(size=(20, 3))
    second = first.copy()
    second[7] += 1.0
    restore = backed_up(place)
    before = keyed_release(place, first, "out.npy")
    with pytest.raises(BadInput, match="other content"):
        keyed_release(place, second, "out.npy")
    restore()
    if renewed:
        (place / "keys" / "noise.key").unlink()
    after = keyed_release(place, second, "out.npy")
    changed = [row for row in range(20) if not np.array_equal(before[row], after[row])]
    assert changed == (list(range(20)) if renewed else [7])
