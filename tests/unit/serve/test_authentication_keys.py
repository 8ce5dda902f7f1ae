"""Tokens and what is kept of them."""

import ast
import hashlib
import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.serve import authentication
from sfumato.serve.authentication import UNKNOWN, Token, digest_of, is_key_id, matches


def test_a_token_is_its_id_and_256_random_bits():
    token = Token.new()
    assert re.fullmatch(r"sfu_[0-9a-f]{16}_[0-9a-f]{64}", token.shown())
    assert Token.parsed(token.shown()) == token
    assert is_key_id(token.id)
    assert len({Token.new().secret for _ in range(1000)}) == 1000


def test_a_token_that_is_printed_by_accident_shows_no_secret():
    token = Token.new()
    for text in (repr(token), str(token), f"{token}", repr([token])):
        assert token.secret not in text
        assert token.id in text


@given(st.one_of(st.text(), st.binary(), st.none(), st.integers()))
def test_other_texts_spell_no_token(text):
    assert Token.parsed(text) is None


def test_a_token_has_one_spelling():
    shown = Token.new().shown()
    for text in (
        shown.upper(),
        f" {shown}",
        f"{shown}\n",
        f"{shown}0",
        shown[:-1],
        shown.replace("sfu", "SFU"),
    ):
        assert Token.parsed(text) is None
    fullwidth = shown[:-1] + "１"  # a digit to int(), not to us
    assert Token.parsed(fullwidth) is None


def test_what_is_kept_is_sha256_and_matches_only_its_secret():
    token, other = Token.new(), Token.new()
    assert digest_of(token) == hashlib.sha256(token.secret.encode()).hexdigest()
    assert matches(token, digest_of(token))
    assert not matches(other, digest_of(token))
    assert not matches(token, "")
    assert not matches(token, token.secret)


@given(st.integers(0, 63), st.sampled_from("0123456789abcdef"))
def test_a_secret_that_differs_in_one_digit_is_wrong(place, digit):
    token = Token("0" * 16, "5f" * 32)
    near = Token(token.id, token.secret[:place] + digit + token.secret[place + 1 :])
    assert matches(near, digest_of(token)) == (near.secret == token.secret)


def test_digests_are_compared_by_compare_digest_and_nothing_else():
    """The source of ``matches`` is one call of it on two digests; a plain comparison anywhere would show."""
    tree = ast.parse(inspect.getsource(authentication.matches))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert "hmac.compare_digest" in [ast.unparse(call.func) for call in calls]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]


def test_what_is_compared_for_unknown_keys_is_well_formed():
    assert Token.parsed(UNKNOWN.shown()) == UNKNOWN


@pytest.mark.parametrize("value", ["", "0" * 15, "0" * 17, "G" * 16, "0" * 16 + "\n", None, 7])
def test_ids_of_keys_are_recognised(value):
    assert not is_key_id(value)
