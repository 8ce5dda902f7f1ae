"""Audits inside publications: what they decide, what goes out of them, what is refused before paying."""

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.audits import Canaries, Finding, surely_more
from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee, Neighbours, Statement
from sfumato.publishers import CertifiedPublisher
from sfumato.release import publication
from sfumato.release.catalogue import make_publisher
from sfumato.release.labelled_release import PublicFacts
from sfumato.release.path import Payment
from sfumato.release.publication import open_publication
from sfumato.release.publication_evidence import (
    audited_statements,
    canaries_of,
    fitted_records,
    publication_entry,
)
from sfumato.reports import VerificationFailed

DIGITS = load_digits()
PICTURES = np.rint(DIGITS.images * 255 / 16).astype(np.uint8)
LABELS = DIGITS.target.astype(np.int64)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with the digits and an open budget."""
    monkeypatch.chdir(tmp_path)
    np.savez("digits.npz", x=PICTURES, y=LABELS)
    with Ledger("sqlite:///book.db") as book:
        book.open("digits", epsilon=5.0, delta=1e-4, neighbours="add/remove")
    return tmp_path


def publish(made, output, *, dataset=None, ledger=None, **words):
    return publication.publish(charged(made, dataset, ledger), output, **words)


def charged(made, dataset, ledger):
    return replace(made, payment=Payment(dataset, ledger))


def opened(source="digits.npz", neighbours="add/remove", delta=None, randomness=None, **options):
    given = {"epsilon": 1.0, "delta": delta, "neighbours": neighbours}
    return open_publication(source, "certified", given, classes=10, randomness=randomness, **options)


def unproven():
    """A publication of which nothing is proven: what its fit goes on from is kept where it is told."""
    return open_publication("digits.npz", "pixelation", {}, classes=10)


def notes(path):
    """The notes in the certificate beside ``path``."""
    envelope = json.loads(Path(f"{path}.cert.json").read_text("utf-8"))
    return json.loads(base64.b64decode(envelope["payload"]))["predicate"]["statement"]["notes"]


def test_what_goes_out_does_not_say_whether_anything_could_be_measured(place):
    """40 records have too few canaries to measure anything, unless 10 or more are chosen (chance 0.005)."""
    np.savez("few.npz", x=PICTURES[:40], y=LABELS[:40])
    few = publish(opened("few.npz", randomness=Seeded(1)), "few_out.npz", records=30)
    many = publish(opened(randomness=Seeded(1)), "many_out.npz", records=30)
    assert (few.findings, bool(many.findings)) == ((), True)
    assert notes("few_out.npz") == notes("many_out.npz")
    assert any("stays with whoever published" in note for note in notes("few_out.npz"))
    assert any("a black picture of the first class was added" in note for note in notes("few_out.npz"))


def test_under_add_remove_a_fit_whose_records_are_all_left_out_is_published(place):
    np.savez("two.npz", x=PICTURES[:2], y=LABELS[:2])

    def leaves_nobody(seed):
        coins = Seeded(seed).stream(b"publication canaries").integer(128)
        return not Canaries.drawn(2, Neighbours.ADD_REMOVE, np.random.default_rng(coins)).fitted.size

    seed = next(seed for seed in range(10_000) if leaves_nobody(seed))
    done = publish(opened("two.npz", randomness=Seeded(seed)), "out.npz", records=5, page="page.html")
    assert done.certified.rows == 5
    assert Path("page.html").exists()


def test_neighbours_stay_neighbours_in_what_is_fitted():
    pictures = PICTURES[:5].astype(np.float32)
    more, kinds = fitted_records(pictures, LABELS[:5], np.arange(5), Neighbours.ADD_REMOVE)
    fewer, labels = fitted_records(pictures, LABELS[:5], np.arange(4), Neighbours.ADD_REMOVE)
    np.testing.assert_array_equal(np.delete(more, 4, axis=0), fewer)
    np.testing.assert_array_equal(np.delete(kinds, 4), labels)
    assert not fewer[-1].any()
    same, _ = fitted_records(pictures, LABELS[:5], np.arange(4), Neighbours.REPLACE)
    np.testing.assert_array_equal(same, pictures[:4])


@pytest.mark.parametrize(
    "content", ["", "no coins", "-1\n", "1f", "0" * 33, " " + "0" * 32, "0" * 10_000, "é" * 16]
)
def test_coins_that_are_none_are_refused_before_anything_is_paid(place, content):
    Path("state.coins").write_text(content, "utf-8")
    with Ledger("sqlite:///book.db") as book:
        with pytest.raises(BadInput, match=r"state\.coins does not hold the coins of a fit; remove it"):
            publish(unproven(), "out.npz", checkpoint="state", dataset="digits", ledger=book)
        assert book.balance("digits").spends == 0
    assert not Path("out.npz").exists()


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere"), os.mkfifo])
def test_coins_that_are_no_file_are_refused_before_anything_is_paid(place, make):
    make(Path("state.coins"))
    with Ledger("sqlite:///book.db") as book:
        with pytest.raises(BadInput, match=r"state\.coins (exists and is not|does not hold)"):
            publish(unproven(), "out.npz", checkpoint="state", dataset="digits", ledger=book)
        assert book.balance("digits").spends == 0


def test_coins_are_kept_for_their_owner_alone_once_a_fit_is_paid(place):
    with Ledger("sqlite:///book.db") as book:
        with pytest.raises(BadInput, match="budget"):
            publish(unproven(), "out.npz", checkpoint="state", dataset="digits", ledger=book)
        assert not Path("state.coins").exists()
    publish(unproven(), "out.npz", checkpoint="state")
    assert Path("state.coins").stat().st_mode & 0o777 == 0o600
    before = Path("state.coins").read_bytes()
    publish(unproven(), "more.npz", checkpoint="state")
    assert Path("state.coins").read_bytes() == before


def test_a_white_that_pictures_cannot_hold_is_refused_before_they_are_read(place):
    np.savez("signed.npz", x=(PICTURES // 4).astype(np.int8), y=LABELS)
    with pytest.raises(BadInput, match="`top` was 255, and pictures of type int8 hold numbers up to 127"):
        opened("signed.npz", top=255.0)


def test_what_cannot_be_shown_is_a_remark_of_the_report():
    """Classes that were released were not fitted, and one released picture has no distribution."""
    statement = CertifiedPublisher(1.0, shape=(8, 8)).statement()
    pictures = PICTURES[:60].astype(np.float32)
    entry = publication_entry(
        "out.npz",
        statement,
        (),
        originals=(pictures, np.zeros(60, np.int64)),
        fitted=np.arange(5),
        released=(pictures[:3], np.ones(3, np.int64)),
        top=255.0,
        class_names=("a", "b"),
        rng=np.random.default_rng(0),
    )
    remarks = " ".join(entry.remarks)
    assert "nothing to show side by side" in remarks
    assert "from which no classifier can learn" in remarks


def test_a_report_of_what_was_not_audited_says_what_it_cannot_measure(place):
    publish(opened(audited=False), "out.npz", page="page.html")
    assert "too few records were left out of the fit" in Path("page.html").read_text("utf-8")


def test_a_report_that_cannot_be_written_says_that_the_release_is_out(place):
    Path("home").mkdir()
    told = []

    def report(stage, share):
        told.append(stage)
        if stage == "writing the report":
            Path("home").rmdir()

    with pytest.raises(BadInput, match=r"out\.npz was written, and its report was not: page\.html cannot"):
        publish(opened(), "out.npz", page="home/page.html", report=report)
    assert "writing the report" in told
    assert Path("out.npz.cert.json").exists()


def guessed(correct, guesses, canaries, epsilon, neighbours="replace"):
    return Finding(
        attack="one-run audit",
        threat="knows all",
        measure="share of correct guesses",
        value=correct / guesses,
        chance=0.5,
        confidence=0.99,
        epsilon_lower=epsilon,
        delta=1e-5,
        unit="record",
        neighbours=neighbours,
        numbers={"correct": float(correct), "guesses": float(guesses), "canaries": float(canaries)},
    )


def test_doubtful_contradictions_are_told_and_sure_ones_refused():
    statement = CertifiedPublisher(1.0, 1e-5, shape=(8, 8)).statement()
    sides = (statement.proven, 1e-9)
    canaries = Canaries.drawn(1797, Neighbours.REPLACE, np.random.default_rng(0))
    # 50 of 55 guesses bound ε by more than 1 with 99 % confidence, and are no proof.
    doubtful, sure = guessed(50, 55, 179, 1.05), guessed(179, 179, 179, 4.0)
    measured, out = audited_statements(statement, canaries, [doubtful], *sides)
    assert not measured.consistent()
    assert out.measured == ()
    with pytest.raises(VerificationFailed, match="ε ≥ 4, more than is proven; nothing was written"):
        audited_statements(statement, canaries, [doubtful, sure], *sides)


def test_refusals_of_what_is_true_are_as_rare_as_was_allowed():
    """The chance, over coins, that a mechanism with the proven ε at δ = 0 is refused: exact, by counting."""
    from scipy.stats import binom

    chance = 1e-6
    proven = Guarantee.pure(1.0)
    right = 1.0 / (1.0 + np.exp(-1.0))
    for guesses in (60, 89, 179):
        refused = [
            n for n in range(guesses + 1) if surely_more(guessed(n, guesses, 179, 2.0), proven, chance)
        ]
        assert refused == list(range(refused[0], guesses + 1))
        assert binom.sf(refused[0] - 1, guesses, right) <= chance / 4


@pytest.mark.parametrize("method", ["vaegan-dp", "dpdm"])
def test_records_left_out_of_noisy_steps_are_absent_and_not_null(method):
    pytest.importorskip("torch")
    facts = PublicFacts((8, 8), 255.0, 10, 1797)
    publisher = make_publisher(method, {"multiplier": 2.0, "steps": 2}, facts)
    statement = publisher.statement()
    assert statement.proven.neighbours is Neighbours.ZERO_OUT
    canaries = canaries_of(publisher, 1797, Neighbours.ZERO_OUT, np.random.default_rng(0))
    assert canaries.neighbours is Neighbours.ADD_REMOVE
    found = guessed(358, 358, 358, 5.0, str(canaries.neighbours))
    measured, out = audited_statements(statement, canaries, [found], statement.proven, 0.0)
    assert measured.consistent()
    assert "add/remove neighbours, of which nothing is proven" in measured.notes[-1]
    assert out.measured == ()


def test_records_left_out_of_certified_sums_are_null():
    publisher = CertifiedPublisher(1.0, shape=(8, 8), neighbours="zero-out")
    canaries = canaries_of(publisher, 1797, Neighbours.ZERO_OUT, np.random.default_rng(0))
    assert canaries.neighbours is Neighbours.ZERO_OUT
    with pytest.raises(VerificationFailed):
        audited_statements(
            publisher.statement(),
            canaries,
            [guessed(358, 358, 358, 5.0, "zero-out")],
            publisher.guarantee(),
            1e-9,
        )


@pytest.mark.parametrize("neighbours", ["replace", "zero-out", "add/remove"])
def test_what_an_audit_may_keep_back_is_part_of_what_is_stated_and_charged(place, neighbours):
    with Ledger("sqlite:///book.db") as book:
        book.open("people", epsilon=1.0, delta=1e-5, neighbours=neighbours)
        made = opened(neighbours=neighbours, delta=1e-5)
        done = publish(made, "out.npz", dataset="people", ledger=book)
        proven = done.certified.statement.proven
        assert (proven.slack, proven.at_delta) == (1e-8, 1e-5)
        assert 1.0 - 1e-6 < proven.epsilon(1e-5) <= 1.0 + 1e-9
        assert book.history("people")[-1].guarantee == proven
    assert any("1e-08 of δ is set aside" in note for note in notes("out.npz"))
    groups = made.plan().groups
    assert groups[1] == proven.epsilon()
    assert groups[1] < groups[2] < groups[5] < np.inf
    assert 2.0 < groups[2] < 2.3
    alone = opened(neighbours=neighbours, audited=False)
    assert alone.statement.proven.slack == 0.0
    assert alone.chance == 0.0
    # What was set aside covers the theorem: c + P(A′) with P(A′) ≤ e^x·c + δ(x).
    own = made.fitted.guarantee()
    x = own.epsilon(5e-9)
    assert made.chance * (1.0 + np.exp(x)) + own.delta(x) <= 1e-8 * (1.0 + 1e-9)


def test_a_publication_of_which_nothing_is_proven_sets_nothing_aside(place):
    assert open_publication("digits.npz", "blur", {}, classes=10).slack == 0.0


def test_a_real_audit_of_noisy_steps_is_of_other_neighbours(place):
    pytest.importorskip("torch")
    given = {"multiplier": 2.0, "steps": 2}
    done = publish(open_publication("digits.npz", "vaegan-dp", given, classes=10), "out.npz")
    assert done.findings[0].neighbours == "add/remove"
    assert "zeroing them out" in done.statement.notes[-1]
    assert isinstance(done.statement, Statement)
