"""What keys allow: roles, narrowed by scopes and datasets, and never widened by who makes them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.serve.authentication import (
    OPERATIONS,
    ROLES,
    ApiKey,
    checked_datasets,
    checked_role,
    checked_scopes,
    checked_text,
)

TENANT, KEY = "t" + "0" * 16, "1" * 16
ALLOWED = {
    "owner": {"plan", "protect", "read", "tier", "audit", "budget", "keys", "policy"},
    "publisher": {"plan", "protect", "read", "tier"},
    "auditor": {"plan", "read", "tier", "audit"},
}
SCOPES = st.one_of(st.none(), st.frozensets(st.sampled_from(OPERATIONS), min_size=1))
DATASETS = st.one_of(st.none(), st.frozensets(st.sampled_from(["a", "b", "c"]), min_size=1))
READERS = st.sampled_from([None, "anna", "ben"])
CALLERS = st.builds(
    ApiKey, st.just(TENANT), st.just(KEY), st.sampled_from(list(ROLES)), SCOPES, DATASETS, READERS
)


def caller(role, **narrowed):
    return ApiKey(TENANT, KEY, role, **narrowed)


@pytest.mark.parametrize("role", ALLOWED)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_roles_allow_what_they_say(role, operation):
    assert caller(role).may(operation) == (operation in ALLOWED[role])
    assert caller(role).may(operation, "visits") == (operation in ALLOWED[role])


@given(CALLERS, st.sampled_from(OPERATIONS), st.sampled_from(["a", "b", "c"]))
def test_scopes_and_datasets_only_ever_narrow(held, operation, dataset):
    wide = caller(held.role)
    if held.may(operation, dataset):
        assert wide.may(operation, dataset)
        assert held.may(operation)
        implied = operation == "tier" and "read" in (held.scopes or ())
        assert held.scopes is None or operation in held.scopes or implied
        assert held.datasets is None or dataset in held.datasets


def test_a_key_for_datasets_allows_those_and_nothing_of_the_whole_tenant():
    held = caller("owner", datasets=frozenset({"visits"}))
    assert held.may("protect", "visits")
    assert not held.may("protect", "salaries")
    assert held.may("read")  # lists, of what it may read
    for operation in ("keys", "policy"):
        assert not held.may(operation)
        assert not held.may(operation, "visits")


def test_a_key_of_one_tier_allows_that_and_nothing_else():
    held = caller("auditor", scopes=frozenset({"tier"}), datasets=frozenset({"visits"}))
    assert [operation for operation in OPERATIONS if held.may(operation, "visits")] == ["tier"]
    assert not held.may("tier", "salaries")
    assert caller("auditor", scopes=frozenset({"read"})).may("tier", "visits")


def test_scopes_of_another_role_allow_nothing_even_if_they_got_into_a_key():
    held = caller("auditor", scopes=frozenset({"protect", "read"}))
    assert held.may("read")
    assert not held.may("protect")


def test_an_operation_that_there_is_not_is_a_mistake_and_not_a_no():
    with pytest.raises(BadInput, match="one of plan, protect"):
        caller("owner").may("delete")


@given(CALLERS, st.sampled_from(list(ROLES)), SCOPES, READERS, st.sampled_from(OPERATIONS))
def test_nobody_hands_out_more_than_they_have(giver, role, scopes, reader, operation):
    made = caller(role, scopes=scopes, reader=reader)
    if giver.may_grant(made):
        assert giver.may("keys")
        assert not made.may(operation) or giver.may(operation)
        assert made.reader == giver.reader or giver.may("policy")


def test_owners_make_every_key_and_others_none():
    assert all(caller("owner").may_grant(caller(role, reader="anna")) for role in ROLES)
    assert not any(caller("publisher").may_grant(caller(role)) for role in ROLES)
    only_keys = caller("owner", scopes=frozenset({"keys", "read"}))
    assert only_keys.may_grant(caller("auditor", scopes=frozenset({"read"})))
    assert not only_keys.may_grant(caller("auditor"))
    assert not only_keys.may_grant(caller("auditor", scopes=frozenset({"read"}), reader="anna"))


def test_no_key_outlasts_the_one_that_made_it():
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    held = caller("owner", expires=noon)
    assert held.may_grant(caller("owner", expires=noon))
    assert held.may_grant(caller("auditor", expires=noon - timedelta(days=1)))
    assert not held.may_grant(caller("auditor", expires=noon + timedelta(microseconds=1)))
    assert not held.may_grant(caller("auditor"))
    assert caller("owner").may_grant(caller("owner", expires=noon))
    assert caller("owner").may_grant(caller("owner"))


def test_what_a_key_is_made_of_is_checked():
    assert checked_role("owner") == "owner"
    assert checked_scopes("publisher", ["plan", "plan"]) == {"plan"}
    assert checked_scopes("publisher", None) is None
    assert checked_datasets(["visits"]) == {"visits"}
    assert checked_datasets(None) is None
    assert checked_text("the name of a reader", "Anna Ek") == "Anna Ek"


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: checked_role("admin"), "a role is one of owner, publisher, auditor, not 'admin'."),
        (lambda: checked_role(["owner"]), "a role is one of"),
        (
            lambda: checked_scopes("publisher", ["audit"]),
            "role publisher are among plan, protect, read, tier, not",
        ),
        (lambda: checked_scopes("owner", []), "leave them out to allow all"),
        (lambda: checked_scopes("owner", "read"), "are a list of names, not 'read'"),
        (lambda: checked_scopes("owner", 3), "are a list of names"),
        (lambda: checked_scopes("owner", [["read"]]), "1 to 1,000 names"),
        (lambda: checked_datasets([]), "leave them out to allow all"),
        (lambda: checked_datasets("visits"), "are a list of names"),
        (lambda: checked_datasets(["a/b"]), "the name of a dataset must be"),
        (lambda: checked_datasets(["a"] * 1001), "1 to 1,000 names"),
        (lambda: checked_text("the name of a reader", ""), "1 to 200 printable"),
        (lambda: checked_text("the name of a reader", "a\nb"), "1 to 200 printable"),
        (lambda: checked_text("the name of a reader", "a" * 201), "1 to 200 printable"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(check, words):
    with pytest.raises(BadInput) as refused:
        check()
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")
