"""The path of a model: nothing is paid before all is checked, nothing is written before all is done."""

import json
import math
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("torch")

from sfumato.audits import SHADOWS
from sfumato.errors import BadInput, Forewarning
from sfumato.learners import CertifiedCompact, PrivateSoftmax
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.noise import Seeded
from sfumato.privacy import DELTA, MODELS, Guarantee
from sfumato.release import model_release
from sfumato.release.catalogue import METHODS, class_of, make_learner
from sfumato.release.manifest import verify_folder
from sfumato.release.model_evidence import audited_model
from sfumato.release.model_release import open_learning
from sfumato.release.path import Payment
from sfumato.release.stored_model import load_model
from sfumato.reports import Certificate, KeyRing, VerificationFailed

pytestmark = pytest.mark.usefixtures("quick_attackers")

DIGITS = load_digits()
PICTURES = np.rint(DIGITS.images * 255 / 16).astype(np.uint8)
LABELS = DIGITS.target.astype(np.int64)
FEATURES = DIGITS.data / 16.0
MODEL = {"model.safetensors", "model.json", "manifest.json", "manifest.json.cert.json"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with the digits: 1,400 to learn from and 397 held out."""
    monkeypatch.chdir(tmp_path)
    np.savez("digits.npz", x=PICTURES[:1400], y=LABELS[:1400])
    np.savez("later.npz", x=PICTURES[1400:], y=LABELS[1400:])
    np.savez("features.npz", features=FEATURES[:1400], labels=LABELS[:1400])
    np.savez("some.npz", features=FEATURES[:500], labels=LABELS[:500])
    return tmp_path


FACTS = ("top", "reach", "extractor", "pictures", "audited", "shadows", "payment")


def opened(source="digits.npz", method="dp-sgd", classes=10, randomness=None, **given):
    facts = {"shadows": 0} | {name: given.pop(name) for name in FACTS if name in given}
    options = {"epsilon": 8.0} | given
    return open_learning(source, method, options, classes=classes, randomness=randomness, **facts)


def learn(made, output, *, dataset=None, ledger=None, **words):
    return model_release.learn(charged(made, dataset, ledger), output, **words)


def charged(made, dataset, ledger):
    return replace(made, payment=Payment(dataset, ledger))


def test_a_model_is_kept_with_its_certificate_and_asked_again(place):
    done = learn(opened(extractor="pixels", audited=False), "model", test="later.npz")
    assert set(os.listdir("model")) == MODEL
    assert verify_folder(Path("model"), KeyRing()).holds
    assert done.accuracy.share > 0.7
    assert done.accuracy.records == 397
    kept = load_model("model")
    shares = kept.predict_proba(PICTURES[1400:])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (kept.predict(PICTURES[1400:]) == LABELS[1400:]).mean() == done.accuracy.share
    assert kept.class_names == tuple("0123456789")
    assert kept.statement == done.statement
    described = json.loads(Path("model/model.json").read_text("utf-8"))
    assert described["extractor"]["name"] == "pixels"
    assert described["parameters"]["epsilon"] == 8.0


def test_features_are_learned_from_as_they_are(place):
    done = learn(opened("features.npz", reach=5.0, audited=False), "model")
    kept = load_model("model")
    assert kept.inputs.extractor is None
    assert (kept.predict(FEATURES[1400:]) == LABELS[1400:]).mean() > 0.7
    assert "extractor" not in done.statement.parameters
    with pytest.raises(BadInput, match="63 features were given, and 64"):
        kept.predict_proba(FEATURES[:3, :63])


def test_pictures_of_any_white_are_the_same_pictures(place):
    np.savez("floats.npz", x=PICTURES[:1400] / 255.0, y=LABELS[:1400])
    seed = Seeded(3)
    given = {"extractor": "pixels", "randomness": seed, "audited": False}
    a = learn(opened(**given), "a")
    b = learn(opened("floats.npz", top=1.0, **given), "b")
    assert "reproducible run: not for release" in a.statement.notes
    shares = [
        load_model(done.output, signed=False).predict_proba(pictures)
        for done, pictures in ((a, PICTURES[1400:]), (b, PICTURES[1400:] / 255.0))
    ]
    np.testing.assert_allclose(*shares, atol=1e-3)
    with pytest.raises(VerificationFailed, match="a was not loaded"):
        load_model("a")


def test_the_audit_measures_a_second_model_and_what_goes_out_is_silent_about_it(place):
    done = learn(opened("features.npz", reach=5.0), "model", page="page.html")
    assert done.findings
    assert done.statement.consistent()
    assert done.statement.measured
    said = Certificate.read(Path("model/manifest.json.cert.json").read_bytes(), KeyRing().trusted()).statement
    assert said.measured == ()
    assert any("stays with whoever learned" in note for note in said.notes)
    assert Path("page.html").stat().st_mode & 0o777 == 0o600
    assert "one-run audit" in Path("page.html").read_text("utf-8")


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("method", ["dp-sgd", "compact-certified"])
def test_what_an_audit_may_keep_back_is_part_of_what_is_stated_and_charged(place, method, neighbours):
    given = {"method": method, "neighbours": neighbours, "epsilon": 1.0, "delta": 1e-5}
    given |= {"reach": 5.0, "steps": 20}
    made = opened("some.npz", **given)
    with Ledger("sqlite:///book.db") as book:
        # Filled to the last bit by what is asked for, slack and all.
        book.open("people", epsilon=1.0, delta=1e-5, neighbours=neighbours)
        assert charged(made, "people", book).plan().cost.fits
        done = learn(made, "model", dataset="people", ledger=book)
        assert book.history("people")[-1].guarantee == done.statement.proven
    proven = done.statement.proven
    assert (proven.slack, proven.at_delta) == (1e-8, 1e-5)
    assert 1.0 - 1e-3 < proven.epsilon(1e-5) <= 1.0 + 1e-9
    assert proven.delta(1.0) <= 1e-5 * (1.0 + 1e-9)
    assert made.fitted.guarantee().delta(1.0) <= 1e-5 - 1e-8 + 1e-14
    assert done.audit.game.chance == proven.slack
    kept = load_model("model").statement
    assert kept.proven == proven
    assert kept.parameters["delta"] == 1e-5
    assert any("1e-08 of δ is set aside, as slack" in note for note in kept.notes)
    groups = made.plan().groups
    assert groups[1] == proven.epsilon()
    alone = opened("some.npz", **given, audited=False).plan()
    assert groups == pytest.approx(alone.groups, rel=1e-3)


def test_many_audited_models_fit_into_what_a_budget_holds_for_slack(place):
    made = opened("features.npz", reach=5.0, epsilon=0.1)
    with Ledger("sqlite:///book.db") as book:
        book.open("people", epsilon=2.0, delta=1e-5, neighbours="zero-out")
        for _ in range(10):
            book.spend("people", made.statement.proven)


@pytest.mark.parametrize("method", METHODS["learn"])
def test_without_an_audit_all_of_delta_is_used(place, method):
    made = opened("features.npz", method, reach=5.0, delta=1e-5, audited=False)
    assert made.slack == made.statement.proven.slack == 0.0
    assert made.fitted.public().get("delta", 1e-5) == 1e-5
    assert not any("set aside" in note for note in made.statement.notes)


@pytest.mark.parametrize("method", METHODS["learn"])
def test_every_method_is_attacked_class_by_class(place, method):
    contracts = method in ("compact", "compact-private")
    told = []
    done = learn(
        opened("some.npz", method, reach=5.0, **({"epochs": 2} if contracts else {"steps": 20})),
        "model",
        page="page.html",
        report=lambda stage, share: told.append(stage),
    )
    assert any(stage.startswith("audit: ") for stage in told)
    assert (done.audit.attacks.members, done.audit.attacks.nonmembers) == (400, 100)
    assert {"loss threshold", "label only"} <= {item.attack for item in done.findings}
    (stored,) = (item for item in done.findings if item.attack == "stored records")
    assert stored.beats_chance == (method == "compact")  # which keeps anchors
    assert len(done.statement.measured) == len(done.findings)
    proves = not done.statement.proven.proves_nothing
    assert (done.audit.game is not None) == proves != contracts
    said = Certificate.read(Path("model/manifest.json.cert.json").read_bytes(), KeyRing().trusted()).statement
    assert said.measured == ()
    document = json.loads(json.dumps(done.to_dict(), allow_nan=False))
    assert document["audit"]["attacks"]["members"] == 400
    assert (document["audit"]["canaries"] is not None) == proves
    page, classes = Path("page.html").read_text("utf-8"), document["class_by_class"]
    assert [row["class"] for row in classes["leakage"]] == list(range(10))
    assert ": leakage</h3>" in page
    assert (": profile</h3>" in page) == (": noise of Theorem 3</h3>" in page) == contracts
    assert (classes["profile"] is not None) == contracts
    if contracts:
        printed, corrected = classes["allocations"]
        assert (printed["formula"], corrected["formula"]) == (
            "equation 21 as printed",
            "equation 21, corrected",
        )
        assert (printed["epsilon"], printed["delta"]) == (8.0, DELTA)
        ratio = 2.0 * math.log(1.25 / DELTA)
        np.testing.assert_allclose(corrected["sigma"], np.array(printed["sigma"]) * ratio)
        assert {"diameter", "eta", "kappa", "log_rho", "vulnerability"} <= set(classes["profile"][0])


def test_shadow_models_are_learned_and_attack(place):
    told = []
    done = learn(
        opened("some.npz", reach=5.0, steps=20, shadows=4),
        "model",
        report=lambda stage, share: told.append(stage),
    )
    assert {"LiRA online", "RMIA online", "shadow models"} <= {item.attack for item in done.findings}
    assert {"audit: shadow models", "audit: attack network"} <= set(told)
    assert opened("some.npz", reach=5.0, shadows=SHADOWS).shadows == 8
    with pytest.raises(BadInput, match="`shadows` was 3: give 0 for no shadow models, or 4 or more"):
        opened("some.npz", reach=5.0, shadows=3)


def test_shadow_models_that_cannot_be_learned_are_told_to_the_owner_alone(place):
    """Half of the records, and half of a class of two that lies in none of them, is nothing to contract.

    With this seed both of that class are among the four fifths that are attacked.
    """
    rare = np.flatnonzero(LABELS == 9)[:2]
    kept = np.concatenate([np.flatnonzero(LABELS != 9)[:300], rare])
    np.savez("rare.npz", features=FEATURES[kept], labels=LABELS[kept])
    given = {"reach": 5.0, "epochs": 1, "shadows": 4, "randomness": Seeded(1)}
    done = learn(opened("rare.npz", "compact", **given), "model")
    assert any("not attacked by shadow models" in note for note in done.statement.notes)
    assert done.audit.attacks is not None
    assert not any(b"shadow" in file.read_bytes() for file in Path("model").iterdir())


def test_an_audit_that_cannot_be_done_is_told_to_the_owner_alone(place, monkeypatch):
    def broken(*given, **named):
        raise ZeroDivisionError("record 7 says 3.14159")

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.release.model_evidence.one_run_audit", broken)
        patch.setattr("sfumato.release.model_evidence.audit_learner", broken)
        done = learn(opened("some.npz", reach=5.0, steps=20), "model", page="page.html")
    assert done.statement.notes[-2:] == (
        "not audited by canaries: the audit could not be done (ZeroDivisionError)",
        "not audited by attacks on members: the audit could not be done (ZeroDivisionError)",
    )
    assert done.findings == ()
    assert "record 7 says" not in json.dumps(done.to_dict()) + Path("page.html").read_text("utf-8")
    shown = load_model("model").statement
    assert not any("ZeroDivisionError" in note for note in shown.notes)
    # What others see is the same where the audit could be done.
    assert learn(opened("some.npz", reach=5.0, steps=20), "whole").findings
    assert load_model("whole").statement == shown


class Overpromising(PrivateSoftmax):
    """Says ε = 0.01 whatever noise it adds."""

    def guarantee(self):
        told = super().guarantee()
        return Guarantee.gaussian(
            400.0, unit=told.unit, neighbours=told.neighbours, theorem="none", at_delta=1e-5
        )


def test_a_model_that_shows_more_than_is_proven_is_not_kept(place):
    honest = opened("features.npz", reach=5.0)
    wrong = Overpromising(50.0, classes=10, reach=5.0)
    with pytest.raises(VerificationFailed, match="the model was not kept: one run with 500 canaries shows"):
        learn(replace(honest, fitted=wrong), "model")
    assert not Path("model").exists()


def test_the_budget_is_charged_once_and_never_for_a_refusal(place):
    with Ledger("sqlite:///book.db") as book:
        book.open("people", epsilon=9.0, delta=1e-4, neighbours="zero-out")
        given = {"dataset": "people", "ledger": book}
        features = {"source": "features.npz", "reach": 5.0, "audited": False}
        plan = charged(opened(), "people", book).plan()
        assert plan.cost.fits
        for refused in ({"clip": -1.0}, {"epsilon": 0.001}):
            with pytest.raises(BadInput):
                learn(opened(**features, **refused), "model", **given)
        np.savez("bad.npz", x=PICTURES[:1400], y=LABELS[:1400] + 1)
        with pytest.raises(BadInput, match="is not one of 0 to 9"):
            learn(opened("bad.npz", extractor="pixels", audited=False), "model", **given)
        assert book.balance("people").spends == 0
        done = learn(opened(**features), "model", **given)
        assert done.certified.paid["number"] > 0
        assert verify_folder(Path("model"), KeyRing(), book).holds
        with pytest.raises(BudgetRefused):
            learn(opened(**features), "again", **given)
    assert not Path("again").exists()


def test_a_plan_reads_no_record(place):
    whole = bytearray(Path("digits.npz").read_bytes())
    whole[5000:5400] = bytes(400)  # in the middle of the pictures
    Path("digits.npz").write_bytes(whole)
    made = opened(extractor="pixels").plan()
    assert (made.rows, made.columns) == (1400, 64)
    assert made.groups[1] == pytest.approx(8.0)
    assert made.what == "a classifier of 10 classes by 64 features of 1,400 pictures of 8 × 8"
    with pytest.raises(BadInput, match="damaged"):
        learn(opened(extractor="pixels"), "model")
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("output", "page", "sentence"),
    [
        ("digits.npz", None, "lie in one another"),
        ("nowhere/model", None, "the folder nowhere does not exist"),
        ("full", None, "full holds files already"),
        ("model", "page.pdf", "must name an .html file"),
        ("model", "model/page.html", "is private, and would"),
    ],
)
def test_places_are_checked_before_anything_is_done(place, output, page, sentence):
    Path("full").mkdir()
    Path("full/mine").write_text("stays")
    with pytest.raises(BadInput, match=sentence):
        learn(opened(), output, page=page)


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ({"x": PICTURES[:5, :7], "y": LABELS[:5]}, "have the shape"),
        ({"x": PICTURES[:5], "y": LABELS[:5] + 20}, "held.npz: the label of record 0 is not one of"),
        ({"z": PICTURES[:5], "y": LABELS[:5]}, "name one of its arrays by `pictures`"),
    ],
)
def test_held_out_records_that_do_not_fit_are_refused(place, held, sentence):
    np.savez("held.npz", **held)
    with pytest.raises(BadInput, match=sentence):
        learn(opened(extractor="pixels"), "model", test="held.npz")
    with pytest.raises(BadInput, match="no arrays x_test"):
        learn(opened(extractor="pixels"), "model", test="digits.npz")


@pytest.mark.parametrize("method", METHODS["learn"])
def test_every_method_is_known_by_its_name(method):
    kind = class_of("learn", method)
    made = make_learner(method, {"epsilon": 1.0}, classes=10, reach=1.0)
    assert isinstance(made, kind)
    assert made.guarantee().proves_nothing == (method in ("compact", "compact-private"))


@pytest.mark.parametrize(
    ("name", "options", "facts", "sentence"),
    [
        ("dp_sgd", {"epsilon": 1.0}, (10, 1.0), "there is no method 'dp_sgd'; did you mean dp-sgd?"),
        ("boosting", {"epsilon": 1.0}, (10, 1.0), "choose one of dp-sgd, compact-certified"),
        ("dp-sgd", {}, (10, 1.0), "dp-sgd needs a privacy budget"),
        ("dp-sgd", {"epsilon": 1.0}, (None, 1.0), "dp-sgd needs `classes=N`"),
        ("dp-sgd", {"epsilon": 1.0}, (1, 1.0), "`classes` was 1"),
        ("dp-sgd", {"epsilon": 1.0}, (10, None), "dp-sgd needs `reach=NORM`"),
        ("dp-sgd", {"epsilon": 1.0, "bandwidth": 2.0}, (10, 1.0), "dp-sgd has no `bandwidth`; it takes"),
        ("dp-sgd", {"epsilon": 1.0, "rate": 0.1}, (10, 1.0), "dp-sgd has no `rate`; it takes"),
        ("compact-certified", {"epsilon": 1.0, "sampling": 0.1}, (10, 1.0), "has no `sampling`; it takes"),
        ("dp-sgd", {"epsilon": 1.0, "steps": 0}, (10, 1.0), "`steps` was 0"),
        ("dp-sgd", {"epsilon": -1.0}, (10, 1.0), "`epsilon` must be a positive number"),
    ],
)
def test_what_a_method_does_not_take_is_refused(name, options, facts, sentence):
    with pytest.raises(BadInput, match=sentence):
        make_learner(name, options, classes=facts[0], reach=facts[1])


def test_the_chance_of_a_record_to_be_taken_has_one_name():
    for method in ("dp-sgd", "compact-private"):
        options = {"epsilon": 1.0, "sampling": 0.1, "rate": None}
        assert make_learner(method, options, classes=10, reach=1.0).sampling == 0.1
    proven = make_learner("dp-sgd", {"epsilon": 1.0, "sampling": 0.1}, classes=10, reach=1.0).guarantee()
    assert proven.theorem.startswith("DP-SGD")


def test_too_many_features_for_a_contraction_are_refused_with_the_plan(place):
    np.savez("wide.npz", features=np.zeros((4, 4001)), labels=np.arange(4) % 2)
    with pytest.raises(BadInput, match="4,001 features would release a square of that side, and 4,000 are"):
        opened("wide.npz", "compact-certified", classes=2, reach=1.0)
    assert opened("wide.npz", classes=2, reach=1.0).plan().columns == 4001


def test_canaries_keep_within_the_features_that_a_learner_takes(place):
    """Canaries on 500 axes of their own would be too many for 64 features where 500 are the most."""

    class Narrow(CertifiedCompact):
        most_features = 500

    for kind, canaries in ((CertifiedCompact, "axes"), (Narrow, "directions")):
        learner = kind(8.0, steps=2, reach=5.0)
        stated = learner.statement()
        found = audited_model(
            stated,
            learner,
            FEATURES[:200],
            LABELS[:200],
            chance=1e-8,
            shadows=0,
            report=lambda stage, share: None,
        )
        assert f"canaries of the kind {canaries}," in found.game.findings[0].note


@pytest.mark.parametrize("method", ["dp-sgd", "compact-certified"])
def test_the_pace_is_stated_in_the_plan_as_in_the_certificate(place, method):
    made = opened("some.npz", method, reach=5.0, steps=5, audited=False)
    planned = made.plan().statement
    assert planned.parameters["pace"] == made.fitted.resolved(500)["pace"]
    assert "the number of records is public" in planned.notes
    done = learn(made, "model")
    assert (
        done.statement.parameters
        == planned.parameters
        == made.fitted.statement().parameters
        | {
            "method": method,
            "shape": [64],
        }
    )
    assert done.statement.notes[: len(planned.notes)] == planned.notes


def test_what_should_be_known_is_said_before(place):
    made = opened("features.npz", reach=5.0, delta=0.01)
    alone = opened("features.npz", reach=5.0, delta=0.01, audited=False).fitted
    assert made.warnings == alone.forewarnings(made.records, 64)
    assert made.warnings == made.statement.notes[-1:]
    assert math.isfinite(made.statement.proven.epsilon())


def test_what_was_said_before_is_noted_once_and_not_said_by_twins(place):
    made = opened("features.npz", reach=5.0, delta=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Forewarning)
        done = learn(made, "model")
    assert [note for note in done.statement.notes if "1/n" in note] == list(made.warnings)


@pytest.mark.parametrize("method", ["dp-sgd", "compact-certified"])
@pytest.mark.parametrize("neighbours", ["replace", "zero-out"])
def test_a_model_is_calibrated_under_the_neighbours_of_the_budget_that_pays(place, method, neighbours):
    """The two obvious commands: a budget as it opens, and a model. Its noise is tested with the learners."""
    with Ledger("sqlite:///book.db") as book:
        book.open("people", epsilon=9.0, delta=1e-5, neighbours=neighbours)
        payment = Payment("people", book)
        made = opened("features.npz", method, reach=8.0, audited=False, payment=payment)
        assert str(made.statement.proven.neighbours) == made.fitted.neighbours == neighbours
        learn(made, "model", dataset="people", ledger=book)
        assert book.balance("people").spends == 1
        given = opened("features.npz", method, reach=8.0, payment=payment, neighbours="zero-out")
        assert given.fitted.neighbours == "zero-out"
    assert opened("features.npz", method, reach=8.0).fitted.neighbours == MODELS.neighbours


def test_what_is_proven_under_zero_out_alone_is_refused_with_the_command_that_opens_a_budget(place):
    with Ledger("sqlite:///book.db") as book:
        book.open("people", epsilon=9.0, delta=1e-5)
        made = opened("features.npz", reach=8.0, sampling=0.5, audited=False, payment=Payment("people", book))
        with pytest.raises(
            BadInput, match=r"`ledger\.open\('NAME', epsilon=\.\.\., delta=\.\.\., neighbours='zero-out'\)`"
        ):
            learn(made, "model", dataset="people", ledger=book)
        assert book.balance("people").spends == 0
    assert not Path("model").exists()
