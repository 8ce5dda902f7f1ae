"""The whole assessment: every number is that of its own function, and what does not apply is said."""

import numpy as np
import pytest
from skimage import data
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.utility import assessment
from sfumato.utility.assessment import assess
from sfumato.utility.distribution import cosine_similarity, frechet_distance, inception_style_score
from sfumato.utility.image_measures import psnr, ssim
from sfumato.utility.probe import fitted, linear_probe, split
from sfumato.utility.structure_measures import structure

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS[:600] / 16.0
LABELS = LABELS[:600]
NOISY = DIGITS + np.random.default_rng(0).normal(0, 0.3, DIGITS.shape)
CAMERA = data.camera()[:480, :480].reshape(20, 24, 20, 24).swapaxes(1, 2).reshape(400, 24, 24)


def names(found):
    return [one.name for one in found.measures]


def test_every_number_is_that_of_its_function():
    found = assess(DIGITS, NOISY, LABELS, seed=5)
    probe, own = linear_probe(NOISY, LABELS, seed=5), linear_probe(DIGITS, LABELS, seed=5)
    accuracy = found["linear-probe accuracy"]
    assert (accuracy.value, accuracy.original, accuracy.chance) == (
        probe.accuracy,
        own.accuracy,
        probe.chance,
    )
    f1 = found["linear-probe weighted F1"]
    assert (f1.value, f1.original) == (probe.weighted_f1, own.weighted_f1)
    across = linear_probe(NOISY, LABELS, tested_on=DIGITS, seed=5)
    assert found["accuracy on originals, learned from the release"].value == across.accuracy
    shape = structure(DIGITS, NOISY)
    for k in (5, 10, 20):
        overlap = found[f"overlap of {k} nearest neighbours"]
        assert (overlap.value, overlap.chance, overlap.original) == (shape.overlap[k], shape.chance[k], 1.0)
    assert found["Spearman correlation of distances"].value == shape.spearman
    assert np.array_equal(found.structure.by_row[10], shape.by_row[10])
    cosine = cosine_similarity(DIGITS, NOISY).mean()
    assert found["mean cosine similarity over columns"].value == pytest.approx(cosine)
    # Rows that are no pictures have neither a Fréchet distance nor an inception-style score.
    assert not any("Fréchet" in name or "inception" in name for name in names(found))
    assert found.remarks == ()
    pictures = assess(DIGITS, NOISY, LABELS, image_shape=(8, 8), seed=5)
    assert pictures["Fréchet distance over pixels"].value == frechet_distance(DIGITS, NOISY)[0]
    assert pictures["Fréchet distance over pixels"].better == "lower"
    parts = split(LABELS, seed=5)
    model = fitted(DIGITS, LABELS, parts).model
    score = pictures["inception-style score over logistic regression on originals"]
    assert score.value == inception_style_score(model.predict_proba(NOISY[parts[1]]))
    assert score.original == inception_style_score(model.predict_proba(DIGITS[parts[1]]))


def test_the_label_is_no_feature():
    """Indicators and another spelling of the label stand among the columns; the probes must not see them."""
    beside = np.column_stack([DIGITS, np.eye(10)[LABELS], 100.0 - 7.0 * LABELS])
    noisy = np.column_stack([NOISY, np.eye(10)[LABELS], 100.0 - 7.0 * LABELS])
    found, plain = assess(beside, noisy, LABELS), assess(DIGITS, NOISY, LABELS)
    for name in ("linear-probe accuracy", "accuracy on originals, learned from the release"):
        assert found[name] == plain[name]
        assert found[name].original < 1.0
    assert "columns that hold nothing but the label are no features: 11." in found.remarks
    assert linear_probe(noisy, LABELS) == linear_probe(NOISY, LABELS)
    with pytest.raises(BadInput, match="every column is the label itself"):
        linear_probe(np.eye(10)[LABELS], LABELS)


def test_what_is_better_than_a_guess_is_told_from_chance():
    """False-alarm rate below 1e-3 over all measures; the seeds are fixed."""
    rng = np.random.default_rng(3)
    useful, nothing = assess(DIGITS, NOISY, LABELS), assess(DIGITS, rng.normal(size=DIGITS.shape), LABELS)
    for found, better in ((useful, True), (nothing, False)):
        judged = [one for one in found.measures if one.margin is not None]
        assert len(judged) == 6
        assert all((one.value - one.chance > one.margin) is better for one in judged)


def test_pictures_of_bytes_and_of_shares():
    noisy = np.clip(CAMERA + np.random.default_rng(0).normal(0, 20, CAMERA.shape), 0, 255).astype(np.uint8)
    found = assess(CAMERA, noisy, image_shape=(24, 24))
    assert found["mean PSNR in dB"].value == pytest.approx(psnr(CAMERA, noisy, data_range=255).mean())
    assert found["mean SSIM"].value == pytest.approx(ssim(CAMERA, noisy, data_range=255).mean())
    assert found["mean SSIM"].note == "range 255"
    assert "mean cosine similarity over pixels" in names(found)
    assert found.remarks == ("no labels were given, so there is no linear probe.",)
    shares = assess(CAMERA / 255, noisy / 255, image_shape=(24, 24))
    assert shares["mean SSIM"].value == pytest.approx(found["mean SSIM"].value)
    assert shares["mean SSIM"].note == "range 1"


def test_pictures_that_did_not_change_are_counted_apart():
    noisy = CAMERA / 255
    noisy[:100] += 0.1
    found = assess(CAMERA / 255, noisy, image_shape=(24, 24))
    assert found["mean PSNR in dB"].value == pytest.approx(20.0)
    assert found["mean PSNR in dB"].note == "range 1, over the 100 pictures that changed"
    same = assess(CAMERA, CAMERA, image_shape=(24, 24))
    assert "no picture changed, so the peak signal-to-noise ratio is infinite." in same.remarks
    assert same["mean SSIM"].value == pytest.approx(1.0)


def test_other_columns_are_compared_by_probes_and_distances_alone():
    mixed = NOISY @ np.linalg.qr(np.random.default_rng(1).standard_normal((64, 64)))[0][:, :40]
    found = assess(DIGITS, mixed, LABELS, image_shape=(8, 8))
    assert found["linear-probe accuracy"].value == linear_probe(mixed, LABELS).accuracy
    assert any("the release has 40 columns and the original 64" in one for one in found.remarks)
    assert not any("PSNR" in one.name or "Fréchet" in one.name for one in found.measures)
    assert not any("accuracy on originals" in one.name for one in found.measures)


def test_many_rows_are_drawn_and_it_is_said(monkeypatch):
    monkeypatch.setattr(assessment, "_MOST_ROWS", 300)
    found = assess(DIGITS, NOISY, LABELS, seed=2)
    rows = np.sort(np.random.default_rng(2).choice(600, 300, replace=False))
    assert found["linear-probe accuracy"].value == linear_probe(NOISY[rows], LABELS[rows], seed=2).accuracy
    shape = structure(DIGITS, NOISY, most_rows=300, seed=2)
    assert found["overlap of 5 nearest neighbours"].value == shape.overlap[5]
    assert "300 rows drawn" in found["overlap of 5 nearest neighbours"].note
    assert "of rows drawn, standard error" in found["Spearman correlation of distances"].note
    assert "of 600 rows, 300 were drawn at random for all but neighbours." in found.remarks


def test_what_is_not_defined_is_said_and_the_rest_measured():
    constant = np.full(DIGITS.shape, 0.5)
    found = assess(DIGITS, constant, LABELS, image_shape=(8, 8))
    remarks = " ".join(found.remarks)
    assert "all columns are constant over the rows to learn from" in remarks
    assert "all distances between rows of the released array are equal" in remarks
    assert "pictures of 8 × 8 pixels are smaller than the window" in remarks
    assert names(found) == [
        "mean PSNR in dB",
        "mean cosine similarity over pixels",
        "Fréchet distance over pixels",
    ]
    assert found.structure is None


def test_few_rows_and_wide_rows():
    found = assess(DIGITS[:12], NOISY[:12])
    assert "overlap of 10 nearest neighbours" in names(found)
    assert "overlap of 20 nearest neighbours" not in names(found)
    few = assess(DIGITS[:4], NOISY[:4])
    assert any("4 rows cannot have 5 neighbours each" in one for one in few.remarks)
    wide = np.random.default_rng(0).random((30, 1056))
    remarks = assess(wide, wide, image_shape=(32, 33)).remarks
    assert any("a Fréchet distance over 1056 pixels takes too long" in one for one in remarks)
    floats = assess(16.0 * DIGITS, 16.0 * NOISY, image_shape=(8, 8))
    assert any("their range from black to white is unknown" in one for one in floats.remarks)


def test_progress_and_inputs_left_alone():
    original, released = DIGITS.copy(), NOISY.copy()
    told = []
    assess(original, released, LABELS, report=lambda stage, share: told.append((stage, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], told[-1]) == (0.0, ("done", 1.0))
    assert {stage for stage, _ in told} == {"probe", "distances", "pictures and distributions", "done"}
    assert np.array_equal(original, DIGITS)
    assert np.array_equal(released, NOISY)


@pytest.mark.parametrize(
    ("released", "labels", "options", "sentence"),
    [
        (NOISY[:-1], LABELS, {}, "original has 600 rows and the release 599"),
        (np.where(NOISY > 1.9, np.nan, NOISY), LABELS, {}, "of the released array is not a finite number"),
        (NOISY, np.ones(600), {}, "all labels are of one class"),
        (NOISY, LABELS[:-1], {}, "labels have shape"),
        (NOISY, LABELS, {"image_shape": (8, 9)}, r"`image_shape` was \(8, 9\), and records have 64 values"),
        (NOISY, LABELS, {"image_shape": (64,)}, "`image_shape` was"),
    ],
)
def test_bad_input_is_refused(released, labels, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        assess(DIGITS, released, labels, **options)
