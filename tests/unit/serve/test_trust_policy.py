"""Whom a policy trusts: the first rule that matches, and never more for what is not known."""

import json
import math
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.mechanisms import TrustAdaptive
from sfumato.serve.trust_policy import Context, Policy, Rule

READERS, RIGHTS, PLACES = ["anna", "ben", "cleo"], ["ethics", "contract"], ["DE", "EU", "US-CA"]
NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.7/32", "2001:db8::/32", "0.0.0.0/0", "::/0"]
ADDRESSES = ["10.1.2.3", "10.9.9.9", "192.0.2.7", "198.51.100.1", "2001:db8::5", "2001:dead::1"]
AGES = [0.0, 1.5, 30.0, 365.0, 4000.0]


def lists(values):
    return st.lists(st.sampled_from(values), min_size=1, max_size=3)


RULES = st.fixed_dictionaries(
    {"distrust": st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])},
    optional={
        "readers": lists(READERS),
        "networks": lists(NETWORKS),
        "authorisations": lists(RIGHTS),
        "jurisdictions": lists(PLACES),
        "min_age_days": st.sampled_from([0, 1.5, 30]),
        "max_age_days": st.sampled_from([31, 365.0, 3650]),
    },
).filter(lambda rule: rule["distrust"] > 0 or "readers" in rule or "authorisations" in rule)
DOCUMENTS = st.lists(RULES, max_size=6).map(lambda rules: {"rules": rules})
CONTEXTS = st.builds(
    Context,
    st.sampled_from(ADDRESSES),
    st.frozensets(st.sampled_from(RIGHTS)),
    st.sampled_from(PLACES),
    st.sampled_from(AGES),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(
            st.one_of(st.sampled_from(["rules", "distrust", "readers", "networks"]), st.text()), inner
        ),
    ),
)


def policy(*rules):
    return Policy.from_dict({"rules": list(rules)})


def test_without_rules_nobody_is_trusted():
    assert Policy().distrust("anna", Context("10.0.0.1", frozenset({"ethics"}), "DE", 0.0)) == 1.0
    assert Policy().levels() == [1.0]


def test_the_first_rule_that_matches_decides():
    known = policy(
        {"readers": ["ben"], "distrust": 1},
        {"readers": ["anna", "ben"], "distrust": 0.25},
        {"distrust": 0.75},
        {"readers": ["cleo"], "distrust": 0},
    )
    everywhere = Context("10.0.0.1", frozenset(), "DE", 1.0)
    assert [known.distrust(reader, everywhere) for reader in READERS] == [0.25, 1.0, 0.75]
    assert known.levels() == [0.0, 0.25, 0.75, 1.0]


@pytest.mark.parametrize(
    ("networks", "address", "within"),
    [
        (["10.0.0.0/8"], "10.255.0.1", True),
        (["10.0.0.0/8"], "11.0.0.0", False),
        (["10.0.0.0/8"], "::ffff:10.1.1.1", True),
        (["::ffff:10.0.0.0/104"], "10.1.1.1", True),
        (["192.0.2.7"], "192.0.2.7", True),
        (["192.0.2.7"], "192.0.2.8", False),
        (["2001:db8::/32"], "2001:db8:ffff::1", True),
        (["2001:db8::/32"], "2001:db9::1", False),
        (["fe80::/10"], "fe80::1%eth0", True),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["::/0"], "10.0.0.1", False),
        (["10.0.0.0/8", "2001:db8::/32"], "2001:db8::1", True),
    ],
)
def test_networks_are_cidr_blocks_of_both_families(networks, address, within):
    assert policy({"networks": networks, "distrust": 0.5}).distrust("anna", Context(address)) == (
        0.5 if within else 1.0
    )


@pytest.mark.parametrize(
    ("rule", "context", "matches"),
    [
        ({"authorisations": ["ethics"]}, Context(authorisations=frozenset({"ethics", "contract"})), True),
        ({"authorisations": ["ethics", "contract"]}, Context(authorisations=frozenset({"ethics"})), False),
        ({"authorisations": ["ethics"]}, Context(), False),
        ({"authorisations": ["ethics"]}, Context(authorisations=frozenset({"Ethics"})), False),
        ({"jurisdictions": ["de", "FR"]}, Context(jurisdiction="DE"), True),
        ({"jurisdictions": ["DE"]}, Context(jurisdiction="de"), True),
        ({"jurisdictions": ["DE"]}, Context(jurisdiction="DK"), False),
        ({"min_age_days": 30}, Context(age_days=30.0), True),
        ({"min_age_days": 30}, Context(age_days=29.9), False),
        ({"max_age_days": 30}, Context(age_days=29.9), True),
        ({"max_age_days": 30}, Context(age_days=30.0), False),
        ({"min_age_days": 0}, Context(age_days=0.0), True),
        ({"readers": ["anna"], "min_age_days": 30}, Context(age_days=31.0), True),
        ({"readers": ["ben"], "min_age_days": 30}, Context(age_days=31.0), False),
    ],
)
def test_every_condition_of_a_rule_must_hold(rule, context, matches):
    assert Rule.from_dict(rule | {"distrust": 0.5}).matches("anna", context) is matches
    assert policy(rule | {"distrust": 0.5}).distrust("anna", context) == (0.5 if matches else 1.0)


def test_hiding_a_fact_does_not_escape_the_rule_that_asks_for_it():
    known = policy({"jurisdictions": ["US-CA"], "distrust": 0.75}, {"readers": ["anna"], "distrust": 0.25})
    assert known.distrust("anna", Context(jurisdiction="DE")) == 0.25
    assert known.distrust("anna", Context(jurisdiction="US-CA")) == 0.75
    assert known.distrust("anna", Context()) == 0.75
    assert known.distrust(None, Context(jurisdiction="DE")) == 1.0
    aged = policy({"max_age_days": 30, "distrust": 0.75}, {"distrust": 0.25})
    ages = [aged.distrust("anna", Context(age_days=days)) for days in (29.0, 31.0, None, math.nan)]
    assert ages == [0.75, 0.25, 0.75, 0.75]
    assert policy({"networks": ["0.0.0.0/0"], "distrust": 0.5}).distrust("anna", Context("no address")) == 1.0


@given(DOCUMENTS, st.sampled_from(READERS), CONTEXTS)
def test_trust_is_that_of_the_first_match_by_the_words_of_the_document(document, reader, context):
    """Against a second reading of the rules, straight from the document."""

    def holds(rule):
        address = ip_address(context.address)
        return (
            reader in rule.get("readers", [reader])
            and any(address in ip_network(one) for one in rule.get("networks", [context.address]))
            and set(rule.get("authorisations", [])) <= context.authorisations
            and context.jurisdiction in rule.get("jurisdictions", [context.jurisdiction])
            and rule.get("min_age_days", 0) <= context.age_days < rule.get("max_age_days", math.inf)
        )

    expected = next((rule["distrust"] for rule in document["rules"] if holds(rule)), 1.0)
    known = Policy.from_dict(document)
    assert known.distrust(reader, context) == expected
    assert expected in known.levels()


@given(DOCUMENTS, st.sampled_from(READERS), CONTEXTS, st.sets(st.sampled_from(range(4))))
def test_whoever_hides_facts_is_trusted_no_more(document, reader, context, hidden):
    known = Policy.from_dict(document)
    less = replace(
        context,
        **{
            name: None
            for number, name in enumerate(["address", "jurisdiction", "age_days"])
            if number in hidden
        },
    )
    seen = known.distrust(None if 3 in hidden else reader, less)
    assert seen >= known.distrust(reader, context)
    assert seen in known.levels()


@given(DOCUMENTS)
def test_a_policy_survives_being_written_and_read(document):
    known = Policy.from_dict(document)
    assert Policy.from_json(known.to_json()) == known
    assert Policy.from_dict(known.to_dict()) == known
    assert Policy.from_json(json.dumps(document).encode()) == known


def read_or_refused(read):
    """The policy that ``read`` answers, or the sentence with which it is refused."""
    try:
        return read(), None
    except BadInput as refused:
        return None, str(refused)


@settings(max_examples=50)
@given(JSON)
def test_any_json_is_a_policy_or_a_sentence(document):
    text = json.dumps(document)
    for read in (lambda: Policy.from_dict(document), lambda: Policy.from_json(text)):
        known, sentence = read_or_refused(read)
        if known is None:
            assert sentence.endswith(".")
            assert "\n" not in sentence
            assert len(sentence) < 300
        else:
            assert Policy.from_dict(known.to_dict()) == known


@given(st.one_of(st.text(), st.binary()))
def test_any_text_is_a_policy_or_a_sentence(text):
    known, sentence = read_or_refused(lambda: Policy.from_json(text))
    assert known is not None or sentence.endswith(".")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "written in JSON"),
        ("[" * 100_000, "written in JSON"),
        ("[]", 'the one field "rules"'),
        ('{"rules": [], "default": 0}', 'the one field "rules"'),
        ('{"rules": {}}', "a list of at most 1,000 rules"),
        (json.dumps({"rules": [{"distrust": 1}] * 1001}), "a list of at most 1,000 rules"),
        ('{"rules": [{"distrust": 1}, 3]}', "rule 2 of the policy is not an object"),
        (
            '{"rules": [{"trust": 0.4}]}',
            'rule 1 of the policy has a field "trust"; how far readers are trusted is said by "distrust"',
        ),
        ('{"rules": [{}]}', 'rule 1 of the policy has no field "distrust", a number from 0 to 1'),
        (
            '{"rules": [{"distrust": 2}]}',
            "distrust of rule 1 of the policy must be a number from 0 to 1, not 2.",
        ),
        ('{"rules": [{"distrust": -0.1}]}', "must be a number from 0 to 1, not -0.1"),
        ('{"rules": [{"distrust": true}]}', "must be a number from 0 to 1, not True"),
        ('{"rules": [{"distrust": "0.5"}]}', "must be a number from 0 to 1, not '0.5'"),
        ('{"rules": [{"distrust": NaN}]}', "a policy holds no NaN."),
        ('{"rules": [{"distrust": 1e999}]}', "must be a number from 0 to 1, not inf"),
        ('{"rules": [{"distrust": 1, "distrust": 0}]}', "the name 'distrust' stands twice in one object"),
        (
            '{"rules": [{"distrust": 0.0}]}',
            "rule 1 of the policy trusts whoever asks the most: a distrust of 0 needs readers or",
        ),
        ('{"rules": [{"distrust": 0, "networks": ["10.0.0.0/8"]}]}', "a distrust of 0 needs readers"),
        (
            '{"rules": [{"distrust": 1, "reader": ["a"]}]}',
            "has a field 'reader'; the fields of a rule are readers,",
        ),
        ('{"rules": [{"distrust": 1, "readers": "anna"}]}', "readers of rule 1 of the policy are a list"),
        ('{"rules": [{"distrust": 1, "readers": []}]}', "leave them out for no condition"),
        ('{"rules": [{"distrust": 1, "readers": ["a\\u0000"]}]}', "printable characters"),
        ('{"rules": [{"distrust": 1, "readers": ["\\ud800"]}]}', "printable characters"),
        ('{"rules": [{"distrust": 1, "networks": ["10.0.0.1/8"]}]}', "no bit set after the prefix, not as"),
        ('{"rules": [{"distrust": 1, "networks": ["home"]}]}', "10.0.0.0/8 or 2001:db8::/32"),
        (
            '{"rules": [{"distrust": 1, "jurisdictions": ["Côte"]}]}',
            "codes such as DE, EU or US-CA, not 'Côte'",
        ),
        (
            '{"rules": [{"distrust": 1, "min_age_days": -1}]}',
            "min_age_days of rule 1 of the policy must be a number",
        ),
        (
            '{"rules": [{"distrust": 1, "max_age_days": null}]}',
            "max_age_days of rule 1 of the policy must be",
        ),
        (
            '{"rules": [{"distrust": 1, "min_age_days": 2, "max_age_days": 2}]}',
            "rule 1 of the policy never matches",
        ),
        (" " * (1 << 20) + "{}", "at most 1,048,576 characters"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(text, words):
    with pytest.raises(BadInput) as refused:
        Policy.from_json(text)
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")


def test_what_a_policy_answers_is_what_the_mechanism_takes():
    known = policy({"readers": ["anna"], "distrust": 0}, {"readers": ["ben"], "distrust": 0.5})
    mechanism = TrustAdaptive(distrust=0.0, epsilon=(1.0, 8.0), delta=1e-6, clip=1.0)
    budgets = [
        mechanism.set_params(distrust=known.distrust(reader, Context())).budget() for reader in READERS
    ]
    assert budgets == [8.0, 4.5, 1.0]
    assert mechanism.tiers(known.levels()).guarantee() == mechanism.set_params(distrust=0.0).guarantee()
