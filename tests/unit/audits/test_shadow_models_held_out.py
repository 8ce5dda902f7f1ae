"""Members and held-out records: a random split that looks at no record."""

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.audits.shadow_models import held_out
from sfumato.errors import BadInput


def test_four_fifths_are_members_and_nobody_is_both():
    split = held_out(1003)
    assert (split.members.size, split.nonmembers.size) == (802, 201)
    np.testing.assert_array_equal(np.sort(np.concatenate([split.members, split.nonmembers])), np.arange(1003))
    again = held_out(1003)
    np.testing.assert_array_equal(split.members, again.members)
    assert not np.array_equal(split.members, held_out(1003, seed=1).members)


def test_everybody_is_held_out_alike():
    """False-alarm rate 1e-6: 500 splits of 200 records, each bound taken at 1e-6/400."""
    counts = np.zeros(200, dtype=int)
    for seed in range(500):
        counts[held_out(200, seed=seed).nonmembers] += 1
    assert binom.ppf(2.5e-9, 500, 0.2) <= counts.min()
    assert counts.max() <= binom.ppf(1 - 2.5e-9, 500, 0.2)


@pytest.mark.parametrize(("records", "share"), [(1, 0.2), (2, 0.1), (3, 0.9)])
def test_a_part_that_would_be_empty_is_refused(records, share):
    with pytest.raises(BadInput, match="leaves one part empty"):
        held_out(records, share=share)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(BadInput, match="strictly between 0 and 1"):
        held_out(100, share=share)
