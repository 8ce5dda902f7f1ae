"""The Flower apps that processes load: they answer terms that were agreed to, and leave what they made."""

from __future__ import annotations

import shutil
import stat
import tomllib

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from sfumato.errors import BadInput, StorageFull
from sfumato.learners.federated import Credential, Federated, Refused
from sfumato.ledger import Ledger
from sfumato.release import checkpoint, federation_apps
from sfumato.release.client_budget import Waiting
from sfumato.release.federation import Federation
from sfumato.release.federation_processes import write_app

TERMS = Federation(
    clients=2, rounds=2, mechanism="gaussian", epsilon=50.0, delta=1e-5, clip=1.0, shape=(4,), classes=3
).settled()


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Who sends: Flower fills it in when it starts a server, and takes it from here."""
    for field in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, field, 1)


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "own.npz", X=rng.normal(size=(20, 4)).astype(np.float32), y=np.arange(20) % 3)
    with Ledger(f"sqlite:///{tmp_path}/own.db") as book:
        book.open("ward/client-2", 90.0, 1e-5, "client")
    return {
        "name": "client-2",
        "file": str(tmp_path / "own.npz"),
        "secret": "own secret",
        "accept": TERMS.digest(),
        "dataset": "ward",
        "ledger": f"sqlite:///{tmp_path}/own.db",
    }


def context(place, terms=TERMS, **more):
    config = {"federation": terms.to_json(), "result": "", "patience": 1.0, "timeout": 1.0}
    return Context(run_id=1, node_id=7, node_config=place, state=RecordDict(), run_config=config | more)


def train(number=1):
    """A message of the server, by the names that stand on the wire."""
    settings = {"server-round": number, "sfumato-rounds": TERMS.rounds, "sfumato-challenge": "fresh"}
    arrays = ArrayRecord([np.asarray(array) for array in TERMS.initial])
    content = RecordDict({"arrays": arrays, "config": ConfigRecord(settings)})
    return Message(content, dst_node_id=7, message_type="train")


def spends(place):
    with Ledger(place["ledger"]) as book:
        return book.balance("ward/client-2").spends


def test_a_client_trains_pays_from_its_own_ledger_and_proves_its_name(place):
    here = context(place)
    reply = federation_apps.client_app(train(), here)
    assert not reply.has_error()
    said = reply.content["sfumato-client"]
    assert dict(said).items() >= Credential("client-2", "own secret").answer("fresh").items()
    assert spends(place) == 1
    assert federation_apps.client_app(train(), here).has_error()
    assert spends(place) == 1


@pytest.fixture
def kept(place, tmp_path):
    """A client that keeps its answers."""
    return place | {"checkpoint": str(tmp_path / "client-2")}


def sent(place, message=None):
    """What a new process of the client answers."""
    reply = federation_apps.client_app(message or train(), context(place))
    assert not reply.has_error(), reply.error.reason
    return [array.tobytes() for array in reply.content["arrays"].to_numpy_ndarrays()]


def test_an_answer_that_was_lost_is_sent_again_and_paid_once(kept, tmp_path):
    first = sent(kept)
    other = train()
    other.content["arrays"] = ArrayRecord([np.asarray(array) + 1 for array in TERMS.initial])
    assert sent(kept) == sent(kept, other) == first
    assert spends(kept) == 1
    assert sent(kept, train(2)) != first
    assert sent(kept) == first
    assert spends(kept) == 2
    folder = tmp_path / ".client-2.run"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {".client-2.run": 0o700, "record.json": 0o600, "sums": 0o600}


@pytest.mark.parametrize(
    ("owner", "at", "before"),
    [
        *((Ledger, "spend", True), (Ledger, "spend", False), (checkpoint._Log, "append", True)),
        *((Ledger, "bind", True), (Ledger, "bind", False)),
    ],
)
def test_a_client_that_is_cut_off_before_it_has_kept_its_answer_draws_it_again(
    kept, monkeypatch, owner, at, before
):
    called = getattr(owner, at)

    def cut(*given, **words):
        if not before:
            called(*given, **words)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, at, cut)
    with pytest.raises(KeyboardInterrupt):
        sent(kept)
    monkeypatch.setattr(owner, at, called)
    assert spends(kept) == (0 if (at, before) == ("spend", True) else 1)
    first = sent(kept)
    assert sent(kept) == first
    assert spends(kept) == 1


@pytest.mark.parametrize("restored", [True, False], ids=["restored", "beside"])
def test_a_copy_of_a_client_gives_no_second_answer(kept, tmp_path, caplog, restored):
    """The server lies: it sends the copy, made after round 1, another model to train from in round 2."""
    folder, other = tmp_path / ".client-2.run", train(2)
    other.content["arrays"] = ArrayRecord([np.asarray(array) + 1 for array in TERMS.initial])
    sent(kept)
    copy = shutil.copytree(folder, tmp_path / "copy" / ".client-2.run")
    answer, place = sent(kept, train(2)), kept
    if restored:
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
    else:
        place = kept | {"checkpoint": str(tmp_path / "copy" / "client-2")}
    for _ in range(2):
        reply = federation_apps.client_app(other, context(place))
        assert reply.error.reason == "this client cannot answer the round; its own log says why."
        assert "paid for another output before" in caplog.text
    assert spends(kept) == 2
    if not restored:
        assert sent(kept, train(2)) == answer


def test_an_answer_is_for_a_model_of_its_layers(kept):
    sent(kept)
    other = train()
    other.content["arrays"] = ArrayRecord([np.zeros(3, np.float32)])
    reply = federation_apps.client_app(other, context(kept))
    assert "other layers" in reply.error.reason


def test_a_client_whose_records_changed_does_not_go_on(kept, caplog):
    sent(kept)
    with np.load(kept["file"]) as held:
        np.savez(kept["file"], X=-held["X"], y=held["y"])
    federation_apps._digest_of.cache_clear()
    reply = federation_apps.client_app(train(2), context(kept))
    assert reply.error.reason == "this client cannot take part; its own log says why."
    assert "the data changed since" in caplog.text
    assert spends(kept) == 1


def test_what_cannot_be_kept_is_not_sent(kept, monkeypatch):
    def full(self, array):
        raise StorageFull("the disk is full.")

    append = checkpoint._Log.append
    monkeypatch.setattr(checkpoint._Log, "append", full)
    with pytest.raises(StorageFull):
        sent(kept)
    monkeypatch.setattr(checkpoint._Log, "append", append)
    first = sent(kept)
    assert sent(kept) == first
    assert spends(kept) == 1


@pytest.mark.parametrize("accept", [None, "0" * 64])
def test_terms_that_the_client_did_not_agree_to_are_not_answered(place, accept):
    """Whoever starts a run could otherwise ask for parameters without noise."""
    other = {key: value for key, value in place.items() if key != "accept"}
    reply = federation_apps.client_app(train(), context(other | ({"accept": accept} if accept else {})))
    assert reply.error.reason == "the terms of this run are not those that this client agreed to."
    bare = Federation(clients=2, rounds=2, mechanism="none", epsilon=None, delta=1e-5, shape=(4,), classes=3)
    assert federation_apps.client_app(train(), context(place, bare)).has_error()
    assert spends(place) == 0


@pytest.mark.parametrize(
    ("key", "value"), [("ledger", "sqlite:///{}/typo.db"), ("ledger", ""), ("dataset", "yard")]
)
def test_a_client_whose_budget_cannot_be_found_answers_nothing(place, tmp_path, caplog, key, value):
    """A name that was mistyped must not let parameters leave for nothing; why is told at home alone."""
    reply = federation_apps.client_app(train(), context(place | {key: value.format(tmp_path)}))
    assert reply.error.reason.endswith("its own log says why.")
    assert "ward" not in reply.error.reason
    assert "budget" in caplog.text
    assert spends(place) == 0


def test_what_the_server_leaves_is_read_as_it_was(tmp_path):
    made = Federated(
        TERMS.initial,
        1,
        TERMS.round_guarantee(),
        {"client-1": 2, "client-2": 1},
        (Refused(1, "client-2", "client-2 did not answer."),),
        "stopped before round 2 of 2: nothing is left.",
        True,
    )
    assert federation_apps.read_state(tmp_path / "state", TERMS) is None
    federation_apps.hand_over(tmp_path, made, 1.0)
    read = federation_apps.read_state(tmp_path / "state", TERMS)
    assert read is not None
    assert all(np.array_equal(a, b) for a, b in zip(read.arrays, made.arrays, strict=True))
    assert (read.rounds, read.paid, read.refused) == (made.rounds, made.paid, made.refused)
    assert (read.stopped, read.out_of_budget, read.guarantee) == (made.stopped, True, made.guarantee)


def test_the_server_goes_on_when_its_state_was_kept(tmp_path):
    (tmp_path / "kept").write_text("1")
    state = Federated(TERMS.initial, 2, TERMS.round_guarantee(), {"client-1": 2, "client-2": 2})
    with pytest.raises(BadInput, match=r"round 2 was not kept within 0\.1 seconds"):
        federation_apps.hand_over(tmp_path, state, 0.1)
    (tmp_path / "kept").write_text("2")
    federation_apps.hand_over(tmp_path, state, 60.0)


def test_the_directory_of_an_app_holds_the_settings_as_they_are(tmp_path):
    odd = 'a "b" \\ c\n\x7f ä 🙂'
    write_app(tmp_path / "app", {"federation": TERMS.to_json(), "timeout": 5.0, "result": odd})
    read = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text("utf-8"))
    config = read["tool"]["flwr"]["app"]["config"]
    assert Federation.from_json(config["federation"]) == TERMS
    assert (config["timeout"], config["result"]) == (5.0, odd)


def test_the_server_needs_the_secrets_by_which_clients_prove_their_names(tmp_path):
    for named in ({}, {"secrets": str(tmp_path / "none.json")}):
        with pytest.raises(BadInput, match="names no file of the clients' secrets"):
            federation_apps._serve(context({}, dataset="", ledger="", **named), None, tmp_path)


def test_waiting_is_a_number_of_seconds():
    for wrong, said in (
        ({"timeout": 0.0}, "`timeout` was 0.0"),
        ({"timeout": float("inf")}, "`timeout` was inf"),
        ({"patience": float("nan")}, "`patience` was nan"),
    ):
        with pytest.raises(BadInput, match=said):
            Waiting(**wrong)
