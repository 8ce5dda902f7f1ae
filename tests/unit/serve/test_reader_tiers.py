"""Tiers: from a reader to a level, what owners declare, and what each kind of file costs."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from sfumato.errors import BadInput
from sfumato.mechanisms import TrustAdaptive, TrustTier
from sfumato.media.images import PlaneTier
from sfumato.noise import Keyed
from sfumato.release import ReleaseRequest
from sfumato.serve.reader_tiers import ReaderFacts, TierLevels, TierStore, TierTerms, context_of
from sfumato.serve.refusals import Conflict, Unknown
from sfumato.serve.registry_database import RegistryDatabase
from sfumato.serve.trust_policy import Policy

LEVELS = (0.0, 0.5, 1.0)
TENANT, OTHER = "t" + "1" * 16, "t" + "2" * 16
RULES = {
    "rules": [
        {"readers": ["clinic-a"], "networks": ["10.0.0.0/8"], "distrust": 0.0},
        {"authorisations": ["ethics-approved"], "jurisdictions": ["DE", "FR"], "distrust": 0.4},
        {"min_age_days": 3650, "distrust": 0.7},
    ]
}


def noise(level=None):
    return Keyed(b"k" * 32, dataset="ward", version="1", release=f"object {level}")


@pytest.mark.parametrize(
    ("levels", "distrust", "expected"),
    [
        (LEVELS, 0.0, 0.0),
        (LEVELS, 1e-9, 0.5),
        (LEVELS, 0.5, 0.5),
        (LEVELS, 0.7, 1.0),
        (LEVELS, 1.0, 1.0),
        ((0.5,), 0.0, 0.5),
        ((0.5,), 0.51, None),
        (LEVELS, float("nan"), None),
    ],
)
def test_a_reader_gets_the_level_at_its_distrust_or_the_next_for_less(levels, distrust, expected):
    assert TierLevels(levels).level_for(distrust) == expected


@pytest.mark.parametrize(
    "levels", [(), (0.1, 0.1), (0, 0.0), (-0.1,), (1.5,), ("0",), (True,), tuple(range(17))]
)
def test_levels_that_are_none_are_refused(levels):
    with pytest.raises(BadInput):
        TierLevels(levels)


@pytest.mark.parametrize(
    ("reader", "facts", "address", "collected", "expected"),
    [
        ("clinic-a", ReaderFacts(), "10.1.2.3", None, 0.0),
        ("clinic-a", ReaderFacts(), "192.0.2.1", None, 1.0),
        ("clinic-a", ReaderFacts(), "192.0.2.1", date(2010, 1, 1), 0.7),
        ("b", ReaderFacts(authorisations=["ethics-approved"], jurisdiction="de"), "192.0.2.1", None, 0.4),
        (
            "b",
            ReaderFacts(authorisations=["ethics-approved"], jurisdiction="US"),
            "192.0.2.1",
            date(2010, 1, 1),
            0.7,
        ),
        ("b", ReaderFacts(authorisations=[], jurisdiction="DE"), "192.0.2.1", date(2026, 1, 1), 1.0),
        ("b", ReaderFacts(authorisations=["ethics-approved"], jurisdiction=None), "192.0.2.1", None, 1.0),
        (None, ReaderFacts(), None, date(2010, 1, 1), 0.7),
    ],
)
def test_a_policy_goes_by_what_the_tenant_says_of_a_reader(reader, facts, address, collected, expected):
    context = context_of(facts, address, collected, datetime(2026, 11, 16, tzinfo=UTC))
    assert Policy.from_dict(RULES).distrust(reader, context) == expected


@pytest.fixture
def store(tmp_path):
    database = RegistryDatabase(f"sqlite:///{tmp_path / 'service.db'}")
    yield TierStore(database)
    database.close()


def test_a_declaration_never_changes_and_has_an_id_of_its_own(store):
    first = store.declare(TENANT, "photos", {"tiers": [0, 1]})
    assert store.declare(TENANT, "photos", {"tiers": [0, 1]}) == first
    with pytest.raises(Conflict):
        store.declare(TENANT, "photos", {"tiers": [0, 0.5]})
    assert store.declare(OTHER, "photos", {"tiers": [0]}).id != first.id
    store.remove(TENANT, "photos")
    assert store.declared(TENANT, "photos") is None
    again = store.declare(TENANT, "photos", {"tiers": [0, 1]})
    assert again.id != first.id
    store.remove(TENANT, "photos")
    with pytest.raises(Unknown):
        store.remove(TENANT, "photos")
    assert [one.name for one in store.all_declared(OTHER)] == ["photos"]


def test_declarations_outlive_the_process_that_made_them(store, tmp_path):
    first = store.declare(TENANT, "photos", {"tiers": [0, 1]})
    store.say(TENANT, "b", ReaderFacts(authorisations=["x"], jurisdiction="DE"))
    database = RegistryDatabase(f"sqlite:///{tmp_path / 'service.db'}")
    again = TierStore(database)
    assert again.declared(TENANT, "photos") == first
    assert again.facts(TENANT, "b") == ReaderFacts(authorisations=["x"], jurisdiction="DE")
    assert again.facts(OTHER, "b") == again.facts(TENANT, None) == ReaderFacts()
    again.say(TENANT, "b", None)
    assert store.readers(TENANT) == {}
    database.close()


def test_a_tier_alone_states_its_own_promise_and_that_of_all_together():
    ladder = TrustAdaptive(epsilon=(1.0, 8.0), delta=1e-6, clip=1.0).tiers(LEVELS)
    for level, epsilon in zip(LEVELS, (8.0, 4.5, 1.0), strict=True):
        tier = TrustTier((1.0, 8.0), 1e-6, 1.0, distrust=level, levels=LEVELS, randomness=noise())
        assert tier.guarantee() == TrustAdaptive(level, (1.0, 8.0), 1e-6, 1.0).guarantee()
        assert tier.guarantee().epsilon() == pytest.approx(epsilon, rel=1e-9)
        assert tier.together() == ladder.guarantee()
        assert any(f"all 3 together: {ladder.guarantee()}" in note for note in tier.statement().notes)


def test_a_picture_tier_promises_its_own_epsilon_of_every_unit():
    top = PlaneTier(
        (2.0, 16.0), 1e-6, "region(8)", distrust=0.0, levels=LEVELS, shape=(64, 48, 3)
    ).statement()
    for level, epsilon in zip(LEVELS, (16.0, 9.0, 2.0), strict=True):
        tier = PlaneTier((2.0, 16.0), 1e-6, "region(8)", distrust=level, levels=LEVELS, shape=(64, 48, 3))
        stated = tier.statement()
        assert stated.proven.epsilon() == pytest.approx(epsilon, rel=1e-6)
        assert stated.proven.epsilon() <= epsilon
        assert str(top.proven) in stated.notes[-1]
        for own, best in zip(stated.also_proven, top.also_proven, strict=True):
            assert own.unit == best.unit
            assert own.epsilon() <= best.epsilon()


@pytest.mark.parametrize(
    "tier",
    [
        TrustTier((1.0, 8.0), 1e-6, 1.0, distrust=0.0, levels=LEVELS),
        PlaneTier((1.0, 8.0), 1e-6, distrust=0.0, levels=LEVELS, shape=(8, 8, 1)),
    ],
)
def test_noise_that_would_be_drawn_anew_for_each_reader_is_refused(tier):
    with pytest.raises(BadInput, match="keyed"):
        tier.perturb(np.zeros((1, 64)))


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (TrustTier, {"levels": (0.0, 1.0)}),
        (TrustTier, {"levels": ()}),
        (TrustTier, {"levels": "01"}),
        (TrustTier, {"epsilon": (8.0, 8.0)}),
        (TrustTier, {"distrust": 2.0}),
        (PlaneTier, {"levels": (0.0, 1.0)}),
        (PlaneTier, {"epsilon": (8.0, 8.0)}),
        (PlaneTier, {"delta": 0.0}),
        (PlaneTier, {"epsilon": 8.0}),
    ],
)
def test_tiers_that_cannot_be_are_refused(kind, changed):
    bound = {"clip": 1.0} if kind is TrustTier else {"shape": (8, 8, 1)}
    given = {"distrust": 0.5, "levels": LEVELS, "epsilon": (1.0, 8.0), "delta": 1e-6} | bound | changed
    with pytest.raises(BadInput):
        kind(**given).statement()


COLUMNS = {
    "age": {"kind": "numeric", "bounds": [0, 120]},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
}
RANGE = {"epsilon": [1, 8], "delta": 1e-6}


@pytest.mark.parametrize(
    ("terms", "nested"),
    [
        (TierTerms("array", RANGE | {"clip": 1.0}), True),
        (TierTerms("array", RANGE | {"bounds": [0, 1]}), True),
        (TierTerms("table", RANGE, {"age": COLUMNS["age"]}), True),
        (TierTerms("table", RANGE, COLUMNS), True),
        (TierTerms("picture", RANGE), True),
        (TierTerms("picture", {"epsilon": [1, 8]}), False),
        (TierTerms("sound", {"epsilon": [1, 8]}), False),
        (TierTerms("video", RANGE), False),
    ],
)
def test_which_kinds_are_nested(terms, nested):
    assert len(terms.check(LEVELS)) == 3
    assert terms.nested is nested


@pytest.mark.parametrize(
    "terms",
    [
        TierTerms("array", RANGE),
        TierTerms("array", {"clip": 1.0}),
        TierTerms("array", {"epsilon": 8, "clip": 1.0}),
        TierTerms("array", {"epsilon": [8, 1], "clip": 1.0}),
        TierTerms("array", {"epsilon": [8, 8], "clip": 1.0}),
        TierTerms("array", RANGE | {"clip": 1.0, "calibration": "paper-tables"}),
        TierTerms("array", RANGE | {"clip": 1.0, "randomness": 1}),
        TierTerms("array", RANGE | {"bounds": [1]}),
        TierTerms("table", RANGE),
        TierTerms("table", RANGE | {"clip": 1.0}, COLUMNS),
        TierTerms("table", RANGE, {"age": {"kind": "numeric"}}),
        TierTerms("picture", RANGE | {"unit": "window(20)"}),
        TierTerms("picture", RANGE | {"delta": "x"}),
        TierTerms("sound", {"epsilon": [1, 8], "unit": "region(16)"}),
        TierTerms("model", RANGE),
    ],
)
def test_terms_that_could_release_nothing_are_refused(terms):
    with pytest.raises(BadInput):
        terms.check(LEVELS)


def test_all_tiers_of_a_nested_file_are_charged_the_same_and_others_each_their_own(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    terms = TierTerms("array", RANGE | {"clip": 1.0})
    opened = [terms.opened(tmp_path / "x.npy", level, LEVELS, noise) for level in LEVELS]
    assert len({one.charged.proven.epsilon() for one in opened}) == 1
    charged = opened[0].charged.terms, opened[0].declared
    assert all((one.charged.terms, one.declared) == charged for one in opened)
    assert [round(one.file.statement.proven.epsilon(), 6) for one in opened] == [8.0, 4.5, 1.0]
    (tmp_path / "t.csv").write_text("age,sex\n30,f\n40,m\n")
    table = TierTerms("table", RANGE, COLUMNS)
    rows = [table.opened(tmp_path / "t.csv", level, LEVELS, noise) for level in LEVELS]
    assert len({str(one.charged.proven) for one in rows}) == 1
    own = [one.file.statement.proven.epsilon() for one in rows]
    assert own[0] == rows[0].charged.proven.epsilon() > own[1] > own[2]
    (told,) = {one.file.statement.notes[-1] for one in rows}
    assert told == f"one of 3 nested tiers; all 3 together: {rows[0].charged.proven}"


def test_tiers_that_are_not_nested_are_each_charged_their_own(tmp_path):
    cv2 = pytest.importorskip("cv2", reason="the extra media is not installed")
    cv2.imwrite(str(tmp_path / "p.png"), np.zeros((16, 16, 3), np.uint8))
    terms = TierTerms("picture", {"epsilon": [1, 8], "unit": "region(4)"})
    apart = [terms.opened(tmp_path / "p.png", level, LEVELS, noise) for level in LEVELS]
    assert [round(one.charged.proven.epsilon(), 6) for one in apart] == [8.0, 4.5, 1.0]
    assert all("not nested" in one.file.statement.notes[-1] for one in apart)


def test_a_request_that_says_trust_is_told_of_distrust():
    given = {"epsilon": [1.0, 8.0], "clip": 1.0, "trust": 0.4}
    with pytest.raises(BadInput, match="`distrust`, 0 for the most trusted reader"):
        ReleaseRequest("trust-adaptive", given).make_mechanism("array")
    del given["trust"]
    assert ReleaseRequest("trust-adaptive", given | {"distrust": 0.4}).make_mechanism("array").distrust == 0.4
