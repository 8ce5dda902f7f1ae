"""Holds: committed before anything is drawn, for the very file and parameters they were made for."""

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.noise import Keyed
from sfumato.release.path import HeldPayment, silent
from sfumato.release.protection import HeldFile
from sfumato.release.request import ReleaseRequest
from sfumato.reports import KeyRing, file_digest, verify

SECRET = bytes(range(32))


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path}/budget.db") as made:
        made.open("clinic", 8.0, 1e-5)
        yield made


@pytest.fixture
def keys(tmp_path):
    return KeyRing(tmp_path / "keys")


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(30, 4)))
    return tmp_path / "x.npz"


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def held_file(file, request=None, report=silent, **words):
    noise = None if request is None else Keyed(SECRET, dataset="clinic", version="1", release="r")
    asked = ReleaseRequest("gaussian", {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0} | words)
    return HeldFile(file, asked, noise=noise, report=report)


def payment(ledger, file, request=None, key="first", **words):
    body = bytes.fromhex(file_digest(file))
    return HeldPayment("clinic", ledger, request, key=key, body=body, **words)


def kinds(ledger):
    return [entry.kind for entry in ledger.history("clinic")][1:]


@pytest.mark.parametrize("request_", [None, "r"])
def test_a_hold_is_committed_and_its_row_is_what_the_certificate_names(ledger, keys, file, out, request_):
    told = []
    held = held_file(file, request_, report=lambda stage, share: told.append(stage))
    first = held.set_aside(payment(ledger, file, request_))
    assert held.set_aside(payment(ledger, file, request_)) == first
    assert kinds(ledger) == ["hold"]

    def before():
        assert told == ["checking"]  # all was read, and nothing drawn
        assert kinds(ledger) == ["hold"]

    done = held.protect(out, payment(ledger, file, request_, before=before), keys)
    assert done.paid == {"ledger": ledger.identity, "number": first.number, "hash": first.hash}
    assert kinds(ledger) == ["hold", "commit"]
    assert [check.outcome for check in verify(done.output, keys, ledger).checks] == ["holds"] * 4


def test_keyed_noise_is_drawn_again_to_the_same_bytes_for_nothing(ledger, keys, file, tmp_path):
    drawn = []
    for number in range(2):
        place = tmp_path / str(number)
        place.mkdir()
        done = held_file(file, "r").protect(place, payment(ledger, file, "r"), keys)
        drawn.append(done.output.read_bytes())
    assert drawn[0] == drawn[1]
    assert kinds(ledger) == ["hold", "commit"]


def test_what_was_given_back_draws_nothing(ledger, keys, file, out):
    held = held_file(file)
    hold = held.set_aside(payment(ledger, file))
    ledger.release_hold("clinic", hold.number)
    with pytest.raises(BadInput, match="given back"):
        held.protect(out, payment(ledger, file), keys)

    def given_back_meanwhile():
        newest = ledger.history("clinic")[-1]
        ledger.release_hold("clinic", newest.number)

    with pytest.raises(BadInput, match="settled before, by a release"):
        held.protect(out, payment(ledger, file, key="second", before=given_back_meanwhile), keys)
    assert kinds(ledger) == ["hold", "release", "hold", "release"]
    assert list(out.iterdir()) == []


def test_who_refuses_before_the_commit_leaves_the_hold_as_it_is(ledger, keys, file, out):
    def refuse():
        raise BadInput("not now.")

    with pytest.raises(BadInput, match="not now"):
        held_file(file).protect(out, payment(ledger, file, before=refuse), keys)
    assert kinds(ledger) == ["hold"]
    assert list(out.iterdir()) == []


def test_a_hold_pays_for_what_it_was_made_for_and_for_nothing_else(ledger, keys, file, out, tmp_path):
    held_file(file, "r").set_aside(payment(ledger, file, "r"))
    with pytest.raises(BadInput, match="used for another request"):
        held_file(file, "r", epsilon=2.0).protect(out, payment(ledger, file, "r"), keys)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "x.npz"
    np.savez(other, X=np.zeros((30, 4)))
    renamed = tmp_path / "y.npz"
    renamed.write_bytes(file.read_bytes())
    for wrong in (other, renamed):
        with pytest.raises(BadInput, match="other content, with other parameters or under another name"):
            held_file(wrong, "r").protect(out, payment(ledger, wrong, "r"), keys)
    assert kinds(ledger) == ["hold"]
    assert list(out.iterdir()) == []


def test_a_request_needs_keyed_noise_and_bad_input_holds_nothing(ledger, keys, file, out, tmp_path):
    with pytest.raises(BadInput, match="keyed noise"):
        held_file(file).set_aside(payment(ledger, file, "r"))
    with pytest.raises(BadInput):
        held_file(tmp_path / "missing.npz")
    values = np.zeros((30, 4))
    values[3, 1] = np.nan
    np.savez(file, X=values)
    with pytest.raises(BadInput):
        held_file(file).protect(out, payment(ledger, file), keys)
    assert kinds(ledger) == []
