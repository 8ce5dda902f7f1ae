"""Means over seeds, paired tests against SciPy, and Holm's adjustment against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel, wilcoxon

from sfumato.errors import BadInput
from sfumato_reproductions.tadp_rme.comparison import (
    compare,
    holm,
    paired_t_test,
    summarise,
    wilcoxon_signed_rank,
)

ONE = [0.91, 0.89, 0.93, 0.90, 0.92, 0.94]
TWO = [0.88, 0.885, 0.90, 0.91, 0.87, 0.89]


def test_means_and_deviations():
    found = summarise(ONE)
    assert (found.mean, found.deviation) == (pytest.approx(np.mean(ONE)), pytest.approx(np.std(ONE, ddof=1)))
    assert str(found) == "0.915 ± 0.019 (6 seeds)"
    assert summarise([0.5]).deviation is None
    assert str(summarise([0.5])) == "0.5 (one seed: no deviation)"


def test_the_tests_are_scipys():
    assert paired_t_test(ONE, TWO) == (pytest.approx(ttest_rel(ONE, TWO).pvalue), "")
    assert wilcoxon_signed_rank(ONE, TWO) == (pytest.approx(wilcoxon(ONE, TWO).pvalue), "")


@pytest.mark.parametrize("test", [paired_t_test, wilcoxon_signed_rank])
def test_what_cannot_be_tested_is_said(test):
    assert test([0.5], [0.6]) == (None, "one seed: no test can be made, run at least two")
    assert test(ONE, ONE) == (1.0, "the results are the same for every seed")


def test_a_difference_that_never_varies():
    p, remark = paired_t_test([1.5, 2.5, 3.5], [1.0, 2.0, 3.0])
    assert p is None
    assert "same for every seed, so its spread cannot be judged" in remark
    p, remark = wilcoxon_signed_rank([1.5, 2.5, 3.5], [1.0, 2.0, 3.0])
    assert p == pytest.approx(0.25)
    assert remark == "3 seeds that differ cannot give a p below 0.25"


def test_few_seeds_cannot_be_significant():
    p, remark = wilcoxon_signed_rank([5.0, 6.1, 7.2, 8.3, 9.5], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert p == pytest.approx(0.0625)
    assert "5 seeds that differ cannot give a p below 0.062" in remark


def test_zero_differences_are_left_out():
    p, _ = wilcoxon_signed_rank([1.0, 1.0, *ONE], [1.0, 1.0, *TWO])
    assert p == wilcoxon_signed_rank(ONE, TWO)[0]


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_as_its_steps_do(p_values, level):
    """Step down: reject while the i-th smallest of m is at most level / (m − i), from i = 0."""
    rejected = set()
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for step, place in enumerate(order):
        if p_values[place] * (len(p_values) - step) > level:
            break
        rejected.add(place)
    assert {place for place, p in enumerate(holm(p_values)) if p <= level} == rejected


def test_many_methods_against_one():
    third = [x + 0.3 + 0.01 * i for i, x in enumerate(TWO)]
    found = compare({"ours": ONE, "noise": TWO, "plain": third}, baseline="noise", test="t")
    assert [one.method for one in found] == ["ours", "plain"]
    raw = [ttest_rel(ONE, TWO).pvalue, ttest_rel(third, TWO).pvalue]
    assert [one.p_value for one in found] == pytest.approx(raw)
    assert [one.adjusted for one in found] == pytest.approx(holm(raw))
    assert found[0].difference == pytest.approx(np.mean(ONE) - np.mean(TWO))
    assert found[0].sentence.startswith("ours minus noise: +0.02583, p = 0.0")
    assert "(paired t-test)" in found[0].sentence
    assert found[0].sentence.endswith("after Holm over 2.")
    assert compare({"a": ONE, "b": TWO}, baseline="b")[0].test == "Wilcoxon signed-rank test"


def test_comparisons_without_a_test_do_not_count():
    results = {"same": [x + 0.5 for x in (1.0, 2.0, 3.0)], "base": [1.0, 2.0, 3.0], "ours": [1.2, 2.1, 3.5]}
    found = compare(results, baseline="base", test="t")
    assert found[0].p_value is None
    assert found[0].adjusted is None
    assert found[0].sentence == (
        "same minus base: +0.5; the difference is the same for every seed, so its spread cannot be judged."
    )
    assert found[1].adjusted == found[1].p_value
    one_seed = compare({"a": [0.5], "b": [0.25]}, baseline="b")
    assert one_seed[0].sentence == "a minus b: +0.25; one seed: no test can be made, run at least two."


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: summarise([]), "at least one"),
        (lambda: summarise([[1.0]]), "give one number for each seed"),
        (lambda: summarise([1.0, float("nan")]), "number 2 of the results is NaN"),
        (lambda: paired_t_test(ONE, TWO[:-1]), "6 results cannot be paired with 5"),
        (lambda: holm([0.5, 1.2]), "between 0 and 1"),
        (lambda: holm([0.5, float("nan")]), "between 0 and 1"),
        (lambda: compare({"a": ONE}, baseline="a"), "one of at least two methods"),
        (lambda: compare({"a": ONE, "b": TWO}, baseline="c"), "`baseline` was 'c'"),
        (lambda: compare({"a": ONE, "b": TWO}, baseline="a", test="z"), "`test` was 'z'"),
    ],
)
def test_results_that_cannot_be_compared_are_refused(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()
