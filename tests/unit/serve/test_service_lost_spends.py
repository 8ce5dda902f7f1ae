"""An old ledger in place of the newest: forgotten spends are found by certificates, and charged again."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.errors import BadInput, RequestReused, SfumatoError
from sfumato.ledger import Ledger
from sfumato.mechanisms import Laplace
from sfumato.noise import Keyed
from sfumato.release import (
    ReleaseRequest,
    charge_again,
    lost_spends,
    protect,
)
from sfumato.reports import KeyRing, verify
from sfumato.serve import server
from sfumato.serve.jobs.job_runner import Watch, Work
from sfumato.serve.refusals import refusal_of
from sfumato.serve.service import Service
from sfumato.serve.settings import Listening, Settings


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


def backed_up(place, name="ledger.db"):
    """Set the ledger aside; returns what puts it back in place of the newest."""
    kept = place / f"backup of {name}"
    shutil.copy(place / name, kept)

    def restore():
        for file in place.glob(f"{name}*"):
            file.unlink()
        shutil.copy(kept, place / name)

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
            overwrite=True,
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


# A service that was restored from a backup

ASKED = ReleaseRequest("gaussian", {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0})


@pytest.fixture
def restored(tmp_path, monkeypatch):
    """A service whose ledger was put back to before its only release; and what starts it, as far as that."""
    data = tmp_path / "service"
    settings = Settings(data)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "other" / "x.npy", np.random.default_rng(1).normal(size=(20, 3)))
    service = Service(settings)
    clinic = service.registry.create_tenant("clinic")
    token = service.registry.create_key(clinic.id, name="owner", role="owner")[1]
    owner = service.registry.authenticate(token)
    service.open_budget(owner, "ward", epsilon=1, delta=1e-5)
    service.close()
    restore = backed_up(data)
    service = Service(settings)
    first = service.protect(owner, ASKED, tmp_path / "x.npy", "ward", request="monday")
    service.close()
    started = []
    monkeypatch.setattr(server, "serve", lambda *_: started.append(True))
    monkeypatch.setattr(server, "start_logging", lambda *_: None)

    def start(**words):
        started.clear()
        server.run(settings, Listening(port=0), **words)
        return started == [True]

    assert start()
    restore()
    return SimpleNamespace(
        settings=settings, owner=owner, first=first, start=start, place=tmp_path, data=data
    )


def test_a_service_does_not_start_on_a_ledger_that_was_put_back(restored):
    with pytest.raises(SfumatoError, match=r"lacks entry 2 of .*:ward, which paid .*lost-spends") as refused:
        restored.start()
    assert refused.value.exit_code == 4
    assert restored.start(accept_lost_spends=True)
    with Ledger(restored.settings.ledger_url) as ledger:
        certificates = restored.data.rglob("*.cert.json")
        (lost,) = lost_spends(certificates, restored.settings.keys, ledger)
        charge_again(lost, ledger)
    assert restored.start()  # nobody can spend it a second time


def test_a_service_does_not_start_on_another_ledger(restored):
    for file in restored.data.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(SfumatoError, match="paid for none of the releases"):
        restored.start()
    assert restored.start(accept_lost_spends=True)


def test_a_service_that_released_nothing_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "serve", lambda *_: None)
    monkeypatch.setattr(server, "start_logging", lambda *_: None)
    server.run(Settings(tmp_path / "service"), Listening(port=0))


def test_a_key_with_other_content_is_refused_whatever_the_ledger_forgot(restored):
    """It was answered with the bytes of the old content, and paid for them once more."""
    service = Service(restored.settings)
    other, same = restored.place / "other" / "x.npy", restored.place / "x.npy"
    for ask in (service.protect, service.submit):
        with pytest.raises(RequestReused, match="request 'monday' was made from other content") as refused:
            ask(restored.owner, ASKED, other, "ward", request="monday")
        assert refusal_of(refused.value).code == "conflict"
    assert [entry["kind"] for entry in service.history(restored.owner, "ward")] == ["open"]
    again = service.protect(restored.owner, ASKED, same, "ward", request="monday")
    assert again.file.read_bytes() == restored.first.file.read_bytes()
    service.close()


def test_of_jobs_too_it_is_kept_what_they_were_made_from(restored):
    restore = [backed_up(restored.data, name) for name in ("ledger.db", "service.db")]
    service = Service(restored.settings)
    same, other = (restored.place / "x.npy", restored.place / "other" / "x.npy")
    service.submit(restored.owner, ASKED, same, "ward", request="tuesday")
    record = service.job_store.table.claim("worker", 60.0)
    Work(service, "worker").do(record, Watch(600.0))
    service.close()
    for each in restore:
        each()
    service = Service(restored.settings)
    with pytest.raises(RequestReused):
        service.submit(restored.owner, ASKED, other, "ward", request="tuesday")
    service.close()
