"""Tables: numbers beside the original and beside a guess, the label no feature, chance told from more."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from sfumato.errors import BadInput
from sfumato.reports.utility_section import utility_verdict
from sfumato.utility import Field, assess_table, linear_probe

ROWS = 4000
FIELDS = (
    Field("age", 0, 1, (0.0, 100.0)),
    Field("cost", 1, 2, (0.0, 10.0)),
    Field("sex", 2, 4, categories=("f", "m")),
    Field("ward", 4, 7, categories=("a", "b", "c")),
)


def table(rng, rows=ROWS):
    """Older people cost more, and men lie in ward c."""
    age = np.clip(rng.normal(-0.4, 0.2, rows), -1.0, 1.0)
    cost = np.clip(0.8 * age + rng.normal(0.0, 0.1, rows), -1.0, 1.0)
    sex = (rng.random(rows) < 0.3).astype(int)
    ward = np.where(sex == 1, 2, (rng.random(rows) < 0.2).astype(int))
    return np.column_stack([age, cost, np.eye(2)[sex], np.eye(3)[ward]]), sex


ORIGINAL, SEX = table(np.random.default_rng(0))


def nothing(rng, rows=ROWS):
    """What a release that says nothing would hold: wide noise around the middle, and even groups."""
    codes = [np.eye(k)[rng.integers(0, k, rows)] for k in (2, 3)]
    return np.column_stack([rng.normal(0.0, 20.0, (rows, 2)), *codes])


def judged(found):
    return {one.name: one for one in found.measures if one.beats_guessing is not None}


def test_the_original_itself_keeps_everything():
    found = assess_table(ORIGINAL, ORIGINAL, FIELDS, SEX)
    assert found["mean of age"].value == found["mean of age"].original == pytest.approx(30.0, abs=1.0)
    assert found["mean of age"].chance == 50.0
    for name in ("marginal of cost, 10 bins", "group shares of ward", "correlations, mean error"):
        assert (found[name].value, found[name].original) == (0.0, 0.0)
    assert found["group shares of sex"].chance == pytest.approx(abs(SEX.mean() - 0.5))
    verdict = utility_verdict(tuple(judged(found).values()))
    assert (verdict.kind, verdict.headline) == ("kept", "Nearly as good as the original")
    assert not any("Fréchet" in one.name or "inception" in one.name for one in found.measures)


def test_the_label_is_no_feature_and_is_read_off_the_release():
    name = "accuracy on originals, learned from the release: sex, which is no feature"
    found = assess_table(ORIGINAL, ORIGINAL, FIELDS, SEX)[name]
    other = ORIGINAL[:, [0, 1, 4, 5, 6]]
    assert found.original == linear_probe(other, SEX).accuracy
    alone = [FIELDS[0], Field("sex", 1, 3, categories=("f", "m"))]
    rows = ORIGINAL[:, [0, 2, 3]]
    kept = assess_table(rows, rows, alone, SEX)[name]
    assert kept.original < 0.8  # age says nothing of sex; with the label among the features it is 1
    assert kept.original == pytest.approx(kept.chance, abs=0.02)
    with pytest.raises(KeyError):
        assess_table(rows[:, 1:], rows[:, 1:], [Field("sex", 0, 2, categories=("f", "m"))], SEX)[name]


def test_a_release_that_says_nothing_is_no_better_than_guessing():
    """False-alarm rate below 1e-3 for each of the 20 tables, by the margins; the seeds are fixed.

    Sex follows from the ward: a classifier that learned from noise alone is right of all or of no originals.
    """
    for seed in range(20):
        found = assess_table(ORIGINAL, nothing(np.random.default_rng(seed)), FIELDS, SEX)
        verdict = utility_verdict(tuple(judged(found).values()))
        assert (verdict.kind, verdict.headline) == ("guessing", "Not better than guessing beyond chance")
        assert len(judged(found)) == 9


def test_other_rows_of_the_same_kind_are_as_good():
    """A table need not hold the same rows: a second sample of the same people is nearly the original."""
    other, _ = table(np.random.default_rng(5), 3000)
    found = assess_table(ORIGINAL, other, FIELDS, SEX)
    assert all(one.beats_guessing for one in judged(found).values())
    with pytest.raises(BadInput, match="columns of numbers"):
        assess_table(ORIGINAL, other[:, :-1], FIELDS)
    loose = assess_table(ORIGINAL[:, :2], other[:, :2], FIELDS[:2], SEX)
    assert any("no column of the release, whose rows are others" in line for line in loose.remarks)


def test_real_rows_with_a_label_of_their_own():
    data = load_breast_cancer()
    low, high = data.data.min(axis=0), data.data.max(axis=0)
    rows = 2.0 * (data.data - low) / (high - low) - 1.0
    fields = [Field(name, i, i + 1, (low[i], high[i])) for i, name in enumerate(data.feature_names)]
    found = assess_table(rows, rows, fields, data.target)
    assert found["accuracy on originals, learned from the release"].value > 0.9
    assert found["mean of mean radius"].value == pytest.approx(data.data[:, 0].mean())
    assert any("first 20 columns" in line for line in found.remarks)
