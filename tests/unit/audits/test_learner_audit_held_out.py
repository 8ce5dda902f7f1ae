"""Members and held-out records: a random split that looks at no record."""

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.audits.learner_audit import held_out
from sfumato.errors import BadInput


def test_four_fifths_are_members_and_nobody_is_both():
    members, nonmembers = held_out(1003)
    assert (members.size, nonmembers.size) == (802, 201)
    np.testing.assert_array_equal(np.sort(np.concatenate([members, nonmembers])), np.arange(1003))
    np.testing.assert_array_equal(members, held_out(1003)[0])
    assert not np.array_equal(members, held_out(1003, seed=1)[0])


def test_everybody_is_held_out_alike():
    """False-alarm rate 1e-6: 500 splits of 200 records, each bound taken at 1e-6/400."""
    counts = np.zeros(200, dtype=int)
    for seed in range(500):
        counts[held_out(200, seed=seed)[1]] += 1
    assert binom.ppf(2.5e-9, 500, 0.2) <= counts.min()
    assert counts.max() <= binom.ppf(1 - 2.5e-9, 500, 0.2)


def test_a_part_that_would_be_empty_is_refused():
    with pytest.raises(BadInput, match="leaves one part empty"):
        held_out(2)
