"""Tenants and their keys: who gets in, who does not, and what is kept of it."""

import dataclasses
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from sfumato.errors import BadInput
from sfumato.serve.authentication import Token, digest_of
from sfumato.serve.refusals import Conflict, RegistryUnavailable, Unknown
from sfumato.serve.tenant_registry import Registry
from sfumato.serve.trust_policy import Context, Policy


@pytest.fixture
def clinic(registry):
    return registry.create_tenant("clinic")


@pytest.fixture
def school(registry):
    return registry.create_tenant("school")


def trusting(reader, distrust=0.5):
    return Policy.from_dict({"rules": [{"readers": [reader], "distrust": distrust}]})


def test_tenants_are_made_found_and_listed(registry, clock):
    clinic = registry.create_tenant("clinic")
    clock.pass_by(seconds=1)
    school = registry.create_tenant("school")
    assert registry.tenants() == [clinic, school]
    assert registry.tenant(school.id) == school
    assert clinic.created == datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
    assert clinic.id != school.id


def test_a_name_has_one_tenant(registry, clinic):
    with pytest.raises(Conflict, match="'clinic' already"):
        registry.create_tenant("clinic")
    with pytest.raises(BadInput, match="the name of a tenant"):
        registry.create_tenant("a/b")
    assert registry.tenants() == [clinic]


def test_of_threads_that_make_the_same_tenant_one_succeeds(registry):
    barrier = threading.Barrier(8)

    def make(_):
        barrier.wait()
        try:
            return registry.create_tenant("clinic")
        except Conflict:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [one for one in pool.map(make, range(8)) if one is not None]
    assert made == registry.tenants()
    assert len(made) == 1


@pytest.mark.parametrize(
    "tenant_id", ["t0123456789abcdef", "", "clinic", "t\0", "' OR 1=1 --", None, 7, "\ud800"]
)
def test_what_is_no_tenant_is_unknown_to_every_call(registry, tenant_id):
    calls = [
        lambda: registry.tenant(tenant_id),
        lambda: registry.keys(tenant_id),
        lambda: registry.create_key(tenant_id, name="first", role="owner"),
        lambda: registry.revoke_key(tenant_id, "0" * 16),
        lambda: registry.policy(tenant_id),
        lambda: registry.set_policy(tenant_id, Policy()),
        lambda: registry.quotas(tenant_id),
        lambda: registry.charge(tenant_id),
    ]
    for call in calls:
        with pytest.raises(Unknown, match=r"^there is no tenant of this id\.$"):
            call()


def test_a_key_says_who_its_holder_is(registry, clinic):
    expires = datetime(2027, 1, 1, tzinfo=UTC)
    key, token = registry.create_key(
        clinic.id,
        name="nightly export",
        role="publisher",
        scopes=["plan", "protect"],
        datasets=["visits"],
        reader="anna",
        expires=expires,
    )
    held = registry.authenticate(token)
    assert held == key
    assert (held.scopes, held.datasets) == (frozenset({"plan", "protect"}), frozenset({"visits"}))
    assert (held.tenant, held.role, held.reader) == (clinic.id, "publisher", "anna")
    assert held.may("protect", "visits")
    assert not held.may("protect", "salaries")
    assert not held.may("read", "visits")
    assert registry.keys(clinic.id) == [key]
    assert key.expires == expires
    assert token.startswith(f"sfu_{key.id}_")


def test_a_plain_key_has_all_of_its_role(registry, clinic):
    key, token = registry.create_key(clinic.id, name="first", role="owner")
    assert registry.authenticate(token) == key
    assert key.to_dict() == {
        "id": key.id,
        "name": "first",
        "role": "owner",
        "scopes": None,
        "datasets": None,
        "reader": None,
        "created": "2026-11-16T12:00:00+00:00",
        "expires": None,
        "revoked": None,
    }


def test_wrong_unknown_expired_and_revoked_keys_are_refused_alike(registry, clinic, clock):
    _, right = registry.create_key(clinic.id, name="right", role="owner")
    _, expired = registry.create_key(
        clinic.id, name="short", role="owner", expires=clock.now + timedelta(seconds=10)
    )
    revoked, gone = registry.create_key(clinic.id, name="gone", role="owner")
    assert registry.authenticate(gone) is not None
    assert registry.authenticate(expired) is not None
    registry.revoke_key(clinic.id, revoked.id)
    assert registry.authenticate(gone) is None
    clock.pass_by(seconds=9.999)
    assert registry.authenticate(expired) is not None
    clock.pass_by(seconds=0.001)
    assert registry.authenticate(expired) is None
    known = Token.parsed(right)
    wrong = [
        Token(known.id, Token.new().secret).shown(),
        Token(Token.new().id, known.secret).shown(),
        Token.new().shown(),
        Token(known.id, digest_of(known)).shown(),  # who reads the database still has no key
        right.upper(),
        right + "\n",
        right[:-1],
        "sfu__",
        "",
        "Bearer " + right,
        None,
        b"sfu",
        7,
        "\ud800",
    ]
    assert [registry.authenticate(token) for token in wrong] == [None] * len(wrong)
    assert registry.authenticate(right) is not None


def test_a_revoked_key_stays_listed_with_its_time_and_revoking_twice_changes_nothing(registry, clinic, clock):
    key, token = registry.create_key(clinic.id, name="first", role="owner")
    clock.pass_by(seconds=5)
    revoked = registry.revoke_key(clinic.id, key.id)
    assert revoked == dataclasses.replace(key, revoked=clock.now)
    clock.pass_by(seconds=5)
    assert registry.revoke_key(clinic.id, key.id) == revoked
    assert registry.keys(clinic.id) == [revoked]
    assert registry.authenticate(token) is None


def test_a_tenant_neither_sees_nor_revokes_the_keys_of_another(registry, clinic, school):
    key, token = registry.create_key(clinic.id, name="first", role="owner")
    own, _ = registry.create_key(school.id, name="first", role="owner")
    refusals = []
    for key_id in (key.id, Token.new().id, "", "%", None, "0" * 16 + "\n"):
        with pytest.raises(Unknown) as refused:
            registry.revoke_key(school.id, key_id)
        refusals.append(str(refused.value))
    assert set(refusals) == {"the tenant has no key of this id."}
    assert registry.authenticate(token).tenant == clinic.id
    assert registry.keys(school.id) == [own]
    assert registry.keys(clinic.id) == [key]


def test_tokens_are_neither_stored_nor_logged(registry, registry_file, clinic, clock, caplog):
    caplog.set_level(logging.DEBUG)
    tokens = []
    for number in range(3):
        key, token = registry.create_key(clinic.id, name=f"key {number}", role="owner")
        registry.authenticate(token)
        registry.revoke_key(clinic.id, key.id)
        tokens.append(Token.parsed(token))
        assert tokens[-1].secret not in repr((key, registry.keys(clinic.id), registry.authenticate(token)))
    written = b"".join(file.read_bytes() for file in registry_file.parent.iterdir())
    for token in tokens:
        assert digest_of(token).encode() in written  # the search would find what is there
        assert token.secret.encode() not in written
        assert bytes.fromhex(token.secret) not in written
        assert token.secret not in caplog.text
        assert digest_of(token) not in caplog.text


def test_a_database_that_fails_tells_no_secret(registry, registry_sql, clinic):
    _, token = registry.create_key(clinic.id, name="first", role="owner")
    registry_sql("DROP TABLE serve_keys")
    for call in (
        lambda: registry.authenticate(token),
        lambda: registry.create_key(clinic.id, name="second", role="owner"),
    ):
        with pytest.raises(RegistryUnavailable, match="could not be used: no such table") as refused:
            call()
        assert Token.parsed(token).secret not in str(refused.value)
        assert digest_of(Token.parsed(token)) not in str(refused.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("role", "emperor"),
        ("scopes", "read"),
        ("scopes", '"read"'),
        ("datasets", "3"),
        ("expires", "tomorrow"),
        ("expires", "2030-01-01T00:00:00"),
        ("revoked", ""),
    ],
)
def test_a_key_whose_row_cannot_be_read_opens_nothing(registry, registry_sql, clinic, column, value):
    _, token = registry.create_key(clinic.id, name="first", role="publisher", datasets=["visits"])
    registry_sql(f"UPDATE serve_keys SET {column} = ?", value)
    with pytest.raises(RegistryUnavailable, match="changed outside of Sfumato"):
        registry.authenticate(token)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": ""}, "the name of a key must be 1 to 200 printable characters."),
        ({"name": "a\nb"}, "the name of a key"),
        ({"name": None}, "the name of a key"),
        ({"role": "admin"}, "a role is one of"),
        ({"scopes": ["audit"]}, "the scopes of a key of role publisher"),
        ({"scopes": []}, "leave them out to allow all"),
        ({"datasets": ["../x"]}, "the name of a dataset"),
        ({"reader": ""}, "the name of a reader"),
        ({"expires": datetime(2030, 1, 1)}, "a time with a zone"),
        ({"expires": "2030-01-01"}, "a time with a zone"),
        ({"expires": datetime(2026, 11, 16, 12, 0, tzinfo=UTC)}, "expires in the future"),
    ],
)
def test_keys_that_cannot_be_are_refused_and_not_made(registry, clinic, wrong, words):
    with pytest.raises(BadInput) as refused:
        registry.create_key(clinic.id, **({"name": "first", "role": "publisher"} | wrong))
    assert words in str(refused.value)
    assert registry.keys(clinic.id) == []


def test_times_of_every_zone_are_one(registry, clinic, clock):
    zone = timezone(timedelta(hours=5))
    key, token = registry.create_key(
        clinic.id, name="a", role="owner", expires=(clock.now + timedelta(minutes=1)).astimezone(zone)
    )
    assert key.expires.tzinfo is UTC
    clock.pass_by(minutes=1)
    assert registry.authenticate(token) is None


def test_everything_is_there_for_the_next_process(registry, registry_file, clinic, clock):
    key, token = registry.create_key(clinic.id, name="first", role="auditor", scopes=["read"])
    registry.set_policy(clinic.id, trusting("anna"))
    registry.close()
    with Registry(f"sqlite:///{registry_file}", clock=lambda: clock.now) as again:
        assert again.tenants() == [clinic]
        assert again.authenticate(token).scopes == {"read"}
        assert again.keys(clinic.id) == [key]
        assert again.policy(clinic.id).version == 1


def test_policies_are_numbered_and_old_ones_kept(registry, registry_sql, clinic, school, clock):
    nobody, first, second = Context(), trusting("anna"), trusting("anna", 0.25)
    assert registry.policy(clinic.id).version == 0
    assert registry.policy(clinic.id).policy.distrust("anna", nobody) == 1.0
    assert registry.set_policy(clinic.id, first).version == 1
    clock.pass_by(days=1)
    made = registry.set_policy(clinic.id, second, after=1)
    assert (made.version, made.created) == (2, clock.now)
    assert registry.policy(clinic.id) == made
    assert registry.policy(school.id).version == 0
    documents = registry_sql("SELECT document FROM serve_policies ORDER BY version")
    assert [Policy.from_json(text) for (text,) in documents] == [first, second]


def test_nobody_undoes_a_change_of_the_policy_unseen(registry, clinic):
    registry.set_policy(clinic.id, trusting("anna"), after=0)
    with pytest.raises(Conflict, match="at version 1, not 0"):
        registry.set_policy(clinic.id, trusting("ben"), after=0)
    assert registry.policy(clinic.id).policy == trusting("anna")


def test_policies_of_many_threads_are_all_kept(registry, registry_sql, clinic):
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda number: registry.set_policy(clinic.id, trusting(f"r{number}")), range(16))
        )
    assert sorted(one.version for one in made) == list(range(1, 17))
    kept = dict(registry_sql("SELECT version, document FROM serve_policies"))
    assert kept == {one.version: one.policy.to_json() for one in made}


def test_a_policy_that_another_hand_wrote_trusts_nobody(registry, registry_sql, clinic):
    registry.set_policy(clinic.id, trusting("anna"))
    registry_sql("UPDATE serve_policies SET document = ?", '{"rules": [{"distrust": 0}], "more": 1}')
    with pytest.raises(RegistryUnavailable, match="changed outside of Sfumato"):
        registry.policy(clinic.id)
    assert registry.set_policy(clinic.id, trusting("berta")).version == 2
    assert registry.policy(clinic.id).policy == trusting("berta")
