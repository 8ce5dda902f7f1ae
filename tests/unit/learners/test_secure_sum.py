"""Secure sums: exact whoever leaves, and one clear sentence for whatever breaks the protocol."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from secure_rounds import STAYS, mask, masked, shared, summed

from sfumato.errors import BadInput
from sfumato.learners.federated.secure import SecureSum, SecureSumClient, SecureSumServer
from sfumato.learners.federated.secure.secure_messages import Roster, UnmaskRequest
from sfumato.learners.federated.secure.secure_primitives import SHARE_BYTES, agreed_key, secret_of

VECTOR = np.arange(5)


@st.composite
def sums_with_leavers(draw):
    clients = draw(st.integers(2, 8))
    threshold = draw(st.integers(clients // 2 + 1, clients))
    names = draw(st.lists(st.integers(0, 2**64 - 1), min_size=clients, max_size=clients, unique=True))
    gone = draw(st.lists(st.sampled_from(names), max_size=clients - threshold, unique=True))
    leaves = {name: draw(st.integers(0, STAYS - 1)) for name in gone}
    bits = draw(st.sampled_from([16, 32, 64]))
    terms = SecureSum(clients=clients, threshold=threshold, length=draw(st.integers(1, 9)), bits=bits)
    number = st.integers(-terms.limit, terms.limit) | st.sampled_from([-terms.limit, terms.limit])
    vectors = {
        name: np.array(draw(st.lists(number, min_size=terms.length, max_size=terms.length)), dtype=np.int64)
        for name in names
    }
    return terms, vectors, leaves


@given(sums_with_leavers())
@settings(deadline=None, max_examples=150)
def test_the_sum_is_exact_whoever_leaves(case):
    """All values up to the limit, in all rings; up to clients − threshold leave, each at any stage."""
    terms, vectors, leaves = case
    server = summed(terms, vectors, leaves)
    arrived = [name for name in vectors if leaves.get(name, STAYS) > 2]
    assert server.arrived == tuple(sorted(arrived))
    exact = [sum(int(vectors[name][i]) for name in arrived) for i in range(terms.length)]
    assert server.total().tolist() == exact
    assert server.total().tolist() == exact  # asking again changes nothing


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_long_vectors_are_masked_block_by_block(bits):
    """Longer than a block of the key stream, and not a multiple of anything."""
    terms = SecureSum(clients=3, length=300_001, bits=bits)
    vectors = {name: np.random.default_rng(name).integers(-999, 1000, terms.length) for name in range(3)}
    server = summed(terms, vectors, {1: 2})
    np.testing.assert_array_equal(server.total(), vectors[0] + vectors[2])


@pytest.mark.parametrize(
    ("stage", "did"),
    [(0, "advertised keys"), (1, "sealed shares"), (2, "masked input"), (3, "unmasking shares")],
)
def test_with_fewer_than_the_threshold_there_is_no_sum(stage, did):
    terms = SecureSum(clients=5, threshold=4, length=5)
    with pytest.raises(
        BadInput, match=rf"^only 3 clients sent {did}, and 4 of 5 are needed: there is no sum\.$"
    ):
        summed(terms, dict.fromkeys(range(5), VECTOR), {0: stage, 3: stage}).total()


def test_a_late_input_is_not_taken_and_stays_under_its_own_mask():
    """With all that it may ask for, a server takes off the masks in common; the self-mask stays."""
    terms = SecureSum(clients=3, threshold=2, length=5)
    clients, server = shared(terms, range(3))
    boxes = server.deliveries()
    late = masked(clients[2], boxes[2], VECTOR)
    for name in (0, 1):
        server.receive(masked(clients[name], boxes[name], VECTOR))
    request = server.request()
    with pytest.raises(BadInput, match="client 2 sent masked input after that stage was over"):
        server.receive(late)
    told = [clients[name].unmask(request) for name in (0, 1)]
    key = secret_of({one.sender: one.keys[2] for one in told}, 2)
    seen = late.vector.copy()
    for name in (0, 1):
        public = server._keys[name][32:64]
        seen += mask(agreed_key(key, public, session=terms.session, purpose=b"mask"), 5)
    assert not np.array_equal(seen, VECTOR)
    np.testing.assert_array_equal(seen - mask(clients[2]._seed, 5), VECTOR)
    with pytest.raises(BadInput, match="client 0 was asked a second time to help to unmask"):
        clients[0].unmask(replace(request, arrived=(0, 1, 2), missing=()))


def test_a_client_gives_one_secret_of_another_and_never_both():
    terms = SecureSum(clients=4, threshold=3, length=5)
    clients, server = shared(terms, range(4))
    boxes = server.deliveries()
    for name in range(4):
        masked(clients[name], boxes[name], VECTOR)
    asks = {
        ((0, 1, 2, 3), (3,)): "asked twice about one client",
        ((0, 1, 2, 2), (3,)): "asked twice about one client",
        ((0, 1, 2), ()): "other clients than those it has masks in common with",
        ((0, 1, 2), (3, 4)): "other clients than those it has masks in common with",
        ((1, 2, 3), (0,)): "other clients than those it has masks in common with",
        ((0, 1), (2, 3)): "only 2 clients sent their input, and 3 of 4 are needed",
    }
    for (arrived, missing), sentence in asks.items():
        with pytest.raises(BadInput, match=sentence):
            clients[0].unmask(UnmaskRequest(session=terms.session, arrived=arrived, missing=missing))
    answer = clients[0].unmask(UnmaskRequest(session=terms.session, arrived=(0, 1, 2), missing=(3,)))
    assert set(answer.seeds) == {0, 1, 2}
    assert set(answer.keys) == {3}
    # Whatever different clients are told: 2·threshold > clients, and each answers once, so one secret stays.
    gained = {"seed": {}, "key": {}}
    for name in range(1, 4):
        lie = ((0, 1, 2, 3), ()) if name % 2 else ((1, 2, 3), (0,))
        one = clients[name].unmask(UnmaskRequest(session=terms.session, arrived=lie[0], missing=lie[1]))
        gained["seed" if 0 in one.seeds else "key"][name] = (one.seeds | one.keys)[0]
    gained["seed"][0] = answer.seeds[0]
    assert sorted(map(len, gained.values())) == [1, 3]
    for shares in gained.values():
        if len(shares) < 3:
            with pytest.raises(BadInput, match="1 shares were given, and 3 are needed"):
                secret_of(shares, 3)


def test_a_message_counts_once_in_its_stage_and_in_its_session():
    terms = SecureSum(clients=3, length=5)
    clients, server = shared(terms, range(3))
    stranger, _ = shared(SecureSum(clients=3, length=5), range(3))
    with pytest.raises(BadInput, match="client 0 was asked a second time to advertise keys"):
        clients[0].advertise()
    with pytest.raises(BadInput, match="client 1 was asked too early to help to unmask"):
        clients[1].unmask(UnmaskRequest(session=terms.session, arrived=(0, 1, 2), missing=()))
    boxes = server.deliveries()
    with pytest.raises(BadInput, match="client 0 was given a Delivery of another session"):
        masked(stranger[0], boxes[0], VECTOR)
    with pytest.raises(BadInput, match="client 0 was given what is meant for client 1"):
        masked(clients[0], boxes[1], VECTOR)
    first = masked(clients[0], boxes[0], VECTOR)
    with pytest.raises(BadInput, match="client 0 was asked a second time to accept shares"):
        clients[0].accept(boxes[0])
    with pytest.raises(BadInput, match="client 0 was asked a second time to mask its input"):
        clients[0].mask(VECTOR + 1)
    with pytest.raises(BadInput, match="client 1 was asked too early to mask its input"):
        clients[1].mask(VECTOR)
    server.receive(first)
    with pytest.raises(BadInput, match="client 0 sent masked input twice; the first counts"):
        server.receive(first)
    with pytest.raises(BadInput, match="client 1 sent masked input of another session"):
        server.receive(replace(first, sender=1, session=bytes(16)))
    with pytest.raises(BadInput, match="client 9 sent masked input and takes no part in this stage"):
        server.receive(replace(first, sender=9))
    with pytest.raises(BadInput, match="masked input of 4 integers of 64 bits, and 5 of 64 bits are summed"):
        server.receive(replace(first, sender=1, vector=first.vector[:4]))
    with pytest.raises(BadInput, match="masked input of 5 integers of 32 bits, and 5 of 64 bits are summed"):
        server.receive(replace(first, sender=1, vector=first.vector.astype(np.uint32)))
    for name in (1, 2):
        server.receive(masked(clients[name], boxes[name], VECTOR))
    request = server.request()
    answers = [clients[name].unmask(request) for name in range(3)]
    with pytest.raises(BadInput, match="client 0 sent shares of other secrets than it was asked for"):
        server.receive(replace(answers[0], seeds={}))
    with pytest.raises(BadInput, match="the stages of a secure sum end in their order"):
        server.deliveries()
    for answer in answers:
        server.receive(answer)
    np.testing.assert_array_equal(server.total(), 3 * VECTOR)


def test_a_first_stage_refuses_strangers_too_many_and_bad_keys():
    terms = SecureSum(clients=2, length=5)
    server = SecureSumServer(terms)
    first = SecureSumClient(terms, 7).advertise()
    with pytest.raises(BadInput, match="client 7 advertised 3 bytes, which are no two keys"):
        server.receive(replace(first, keys=b"abc"))
    server.receive(first)
    with pytest.raises(BadInput, match="client 7 sent advertised keys twice"):
        server.receive(first)
    server.receive(SecureSumClient(terms, 8).advertise())
    with pytest.raises(BadInput, match="client 9 came after all 2 clients were there"):
        server.receive(SecureSumClient(terms, 9).advertise())


@pytest.mark.parametrize("where", [0, 20, -1])
def test_a_changed_box_is_refused(where):
    terms = SecureSum(clients=3, length=5)
    clients, server = shared(terms, range(3))
    delivery = server.deliveries()[0]
    box = bytearray(delivery.boxes[1])
    box[where] ^= 1
    for boxes in (
        {**delivery.boxes, 1: bytes(box)},
        {1: delivery.boxes[2], 2: delivery.boxes[1]},
        {1: b"short"},
    ):
        with pytest.raises(BadInput, match=r"what client \d sealed for client 0 was changed on the way"):
            masked(clients[0], replace(delivery, boxes=boxes), VECTOR)
    with pytest.raises(BadInput, match="only 1 clients shared their keys, and 2 of 3 are needed"):
        clients[0].accept(replace(delivery, boxes={}))
    with pytest.raises(BadInput, match="given shares of client 5, who takes no part"):
        masked(clients[0], replace(delivery, boxes={5: delivery.boxes[1]}), VECTOR)
    assert masked(clients[0], delivery, VECTOR).vector.shape == (5,)


def test_a_roster_is_checked_before_anything_is_shared():
    terms = SecureSum(clients=3, threshold=3, length=5)
    clients = [SecureSumClient(terms, name) for name in range(4)]
    keys = {client.name: client.advertise().keys for client in clients}
    three = {name: keys[name] for name in range(3)}
    rosters = {
        "does not hold the keys that client 0 advertised": {**three, 0: keys[3]},
        "the roster lists 4 clients, and 3 were agreed on": keys,
        "only 2 clients advertised keys, and 3 of 3 are needed": {0: keys[0], 1: keys[1]},
        "client 1 advertised 5 bytes, which are no two keys": {**three, 1: b"abcde"},
        "two clients of the roster have a key in common": {**three, 2: keys[1]},
        "a public key was advertised that no key can be agreed with": {
            **three,
            2: bytes(32) + bytes([1] * 32),
        },
    }
    for sentence, roster in rosters.items():
        with pytest.raises(BadInput, match=sentence):
            clients[0].share(Roster(session=terms.session, keys=roster))
    assert set(clients[0].share(Roster(session=terms.session, keys=three)).boxes) == {1, 2}


def test_signed_keys_keep_the_servers_own_keys_out():
    terms = SecureSum(clients=3, length=5)
    identities = [Ed25519PrivateKey.generate() for _ in range(3)]
    trusted = {name: one.public_key().public_bytes_raw() for name, one in enumerate(identities)}
    clients = [
        SecureSumClient(terms, name, identity=one.private_bytes_raw(), trusted=trusted)
        for name, one in enumerate(identities)
    ]
    keys = {client.name: client.advertise().keys for client in clients}
    servers_own = SecureSumClient(terms, 2).advertise().keys
    other = SecureSum(clients=3, length=5)
    replayed = SecureSumClient(other, 2, identity=identities[2].private_bytes_raw()).advertise().keys
    for false in (servers_own, servers_own + keys[2][64:], replayed):
        with pytest.raises(BadInput, match="the keys advertised for client 2 are not signed by that client"):
            clients[0].share(Roster(session=terms.session, keys={**keys, 2: false}))
    with pytest.raises(
        BadInput, match="client 9 is on the roster and not among the clients that are trusted"
    ):
        clients[0].share(Roster(session=terms.session, keys={0: keys[0], 1: keys[1], 9: keys[2]}))
    assert set(clients[0].share(Roster(session=terms.session, keys=keys)).boxes) == {1, 2}
    with pytest.raises(BadInput, match="an identity is an Ed25519 private key of 32 bytes, and 3 were given"):
        SecureSumClient(terms, 1, identity=b"abc").advertise()


def test_wrong_shares_of_a_key_are_noticed():
    terms = SecureSum(clients=4, threshold=3, length=5)
    clients, server = shared(terms, range(4))
    boxes = server.deliveries()
    for name in range(3):
        server.receive(masked(clients[name], boxes[name], VECTOR))
    request = server.request()
    for name in range(3):
        answer = clients[name].unmask(request)
        wrong = {3: (1).to_bytes(SHARE_BYTES, "big")} if name == 0 else answer.keys
        server.receive(replace(answer, keys=wrong))
    with pytest.raises(
        BadInput, match="the shares of the key of client 3 do not give the key that it advertised"
    ):
        server.total()


@pytest.mark.parametrize(
    ("integers", "sentence"),
    [
        (np.arange(4), r"an array of shape \(4,\) and type int64: 5 whole numbers are summed"),
        (np.arange(10).reshape(5, 2), r"an array of shape \(5, 2\)"),
        (np.linspace(0, 1, 5), "type float64: 5 whole numbers are summed"),
        (np.full(5, 10923), "a number beyond ±10922, with which the sum of 3 clients could wrap around"),
        (np.full(5, -10923), "a number beyond ±10922"),
    ],
)
def test_an_input_that_cannot_be_summed_is_refused_before_it_is_masked(integers, sentence):
    terms = SecureSum(clients=3, length=5, bits=16)
    clients, server = shared(terms, range(3))
    delivery = server.deliveries()[1]
    clients[1].accept(delivery)
    with pytest.raises(BadInput, match=sentence):
        clients[1].mask(integers)
    kept = np.array(VECTOR)
    clients[1].mask(kept)
    np.testing.assert_array_equal(kept, VECTOR)


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"clients": 1}, "a secure sum is of 2 to 10,000 clients, not of 1"),
        ({"clients": 4, "threshold": 2}, "a threshold of 2 for 4 clients: it must be more than half"),
        ({"clients": 4, "threshold": 5}, "a threshold of 5 for 4 clients"),
        ({"clients": 4, "length": 0}, "vectors of 0 entries were agreed on"),
        ({"clients": 4, "bits": 33}, "a ring of 33 bits was asked for: it has 16, 32, 64 bits"),
        ({"clients": 4, "session": b"1"}, "a session is named by 16 bytes"),
        ({"clients": 4.0}, "`clients` was 4.0: it must be a whole number"),
    ],
)
def test_terms_that_make_no_sum_are_refused(terms, sentence):
    with pytest.raises(BadInput, match=sentence):
        SecureSum(**{"length": 5, **terms})


def test_the_usual_threshold_is_two_thirds_and_more_than_half():
    for clients in range(2, 200):
        threshold = SecureSum(clients=clients, length=1).threshold
        assert threshold * 3 >= clients * 2 > (threshold - 1) * 3
        assert 2 * threshold > clients


@pytest.mark.parametrize("name", [-1, 2**64, 1.0, True, "a"])
def test_clients_are_named_by_numbers(name):
    with pytest.raises(BadInput, match="names are whole numbers from 0 to 2⁶⁴ − 1"):
        SecureSumClient(SecureSum(clients=2, length=1), name)


def test_a_client_goes_on_from_what_it_has_stored():
    """Stored and read back before every step, as between two messages of a server."""
    terms = SecureSum(clients=3, length=5)
    server, states = SecureSumServer(terms), {}

    def again(name):
        return SecureSumClient.resumed(terms, name, states[name])

    for name in range(3):
        client = SecureSumClient(terms, name)
        server.receive(client.advertise())
        states[name] = client.state()
    roster = server.roster()
    for name in range(3):
        client = again(name)
        server.receive(client.share(roster))
        states[name] = client.state()
    boxes = server.deliveries()
    for name in (0, 1):
        client = again(name)
        server.receive(masked(client, boxes[name], VECTOR))
        states[name] = client.state()
    request = server.request()
    for name in (0, 1):
        client = again(name)
        server.receive(client.unmask(request))
        states[name] = client.state()
    np.testing.assert_array_equal(server.total(), 2 * VECTOR)
    with pytest.raises(BadInput, match="client 0 was asked a second time to help to unmask"):
        again(0).unmask(request)


def test_the_example_of_the_documentation_runs(capsys):
    page = Path(__file__).parents[3] / "docs" / "explanation-secure-sums.md"
    exec(page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], {})
    assert capsys.readouterr().out == "[0.75 1.  ]\n"
