"""Names that can do no harm anywhere, and ledger names in which tenants never meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.privacy import Guarantee
from sfumato.serve.authentication import checked_name, ledger_name, new_tenant_id

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
IDS = st.from_regex(r"t[0-9a-f]{16}", fullmatch=True)


@pytest.mark.parametrize("name", ["a", "clinic", "2026", "A.b_c-d", "a..b", "x" * 64])
def test_plain_names_are_taken(name):
    assert checked_name("dataset", name) == name
    assert checked_name("tenant", name) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            ".hidden",
            "-o",
            "_a",
            "a/b",
            "../a",
            "a\\b",
            "a:b",
            "a b",
            "a\n",
            "a\r\nX: y",
            "a\0",
        ),
        *("é", "а", "x" * 65, "a%2fb", None, 3, b"a", ["a"]),
    ],
)
@pytest.mark.parametrize("what", ["dataset", "tenant"])
def test_names_that_could_mislead_are_refused_in_a_sentence(name, what):
    with pytest.raises(BadInput, match=rf"^the name of a {what} must be 1 to 64 letters.*\.$"):
        checked_name(what, name)


@given(st.text())
def test_whatever_is_taken_is_of_the_pattern(name):
    try:
        checked_name("dataset", name)
    except BadInput:
        return
    assert name.isascii()
    assert name[0].isalnum()
    assert all(one.isalnum() or one in "._-" for one in name)


@given(IDS, NAMES, IDS, NAMES)
def test_ledger_names_are_equal_only_for_the_same_dataset_of_the_same_tenant(one, name, other, another):
    equal = ledger_name(one, name) == ledger_name(other, another)
    assert equal == ((one, name) == (other, another))
    assert ledger_name(one, name).removeprefix(ledger_name(one, "")) == name
    if other != one:
        assert not ledger_name(one, name).startswith(ledger_name(other, ""))


@pytest.mark.parametrize(
    "tenant", ["", "clinic", "t0123", "t0123456789abcdef:x", "t0123456789abcdef\n", None]
)
def test_only_ids_name_a_tenant_in_the_ledger(tenant):
    with pytest.raises(BadInput, match="by its id"):
        ledger_name(tenant, "visits")


def test_ids_differ():
    assert len({new_tenant_id() for _ in range(1000)}) == 1000


def test_two_tenants_with_equal_names_of_datasets_never_meet(tmp_path):
    """Each spends its own, and neither finds the other's among the names of the ledger."""
    one, other = new_tenant_id(), new_tenant_id()
    with Ledger(f"sqlite:///{tmp_path}/budget.db") as ledger:
        for tenant in (one, other):
            ledger.open(ledger_name(tenant, "visits"), epsilon=1.0, delta=1e-6)
        ledger.spend(ledger_name(one, "visits"), Guarantee.pure(1.0))
        assert ledger.balance(ledger_name(one, "visits")).spends == 1
        assert ledger.balance(ledger_name(other, "visits")).spends == 0
        ledger.spend(ledger_name(other, "visits"), Guarantee.pure(1.0))
        for tenant in (one, other):
            own = [name for name in ledger.names() if name.startswith(ledger_name(tenant, ""))]
            assert own == [ledger_name(tenant, "visits")]
