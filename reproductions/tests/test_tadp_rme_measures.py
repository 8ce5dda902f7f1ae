"""The paper's membership attack, and the columns that the pairing attack recovers."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato_reproductions.tadp_rme.measures import pairs_recovered, paper_membership

KEY = b"a key of sixteen bytes or more"
X = load_digits().data / 16.0


def test_the_published_attack_says_nothing_even_of_bare_data() -> None:
    """About 450 rows a side are scored: a score below 0.8 has a probability below 1e-6."""
    rows = X[np.random.default_rng(0).permutation(len(X))]
    assert paper_membership(rows[:900], rows[900:]) > 0.8


def test_the_published_attack_is_scored_on_rows_it_did_not_learn_from() -> None:
    """800 rows in 600 columns of noise: learned by heart, they would give a score of 0; alarm 1e-6."""
    noise = np.random.default_rng(6).normal(0.0, 1.0, (800, 600))
    assert paper_membership(noise[:400], noise[400:]) > 0.7
    assert paper_membership(noise[:400], noise[400:] + 0.5) < 0.1


@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_every_column_that_the_key_holder_gets_is_recovered(scale) -> None:
    rows = sf.Gaussian(20.0, 1e-5, clip=1.0).release(X).value if scale == 1.0 else X * scale
    embedding = sf.ReverseManifold(1.0, KEY)
    released = embedding.fit_transform(rows)
    assert pairs_recovered(released, embedding) == 1.0
    # The holder of the key inverts a tampered value too, and gets what the attack gets.
    if scale == 1.0:
        released[5, 17] += 1e-6
        assert pairs_recovered(released, embedding) == 1.0


def test_an_inverse_with_another_alpha_does_not_confirm_the_columns() -> None:
    """Signs differ, so what another reader inverts is not what was recovered."""
    rows = np.random.default_rng(2).normal(0.0, 2.0, (50, 10))
    released = sf.ReverseManifold(1.0, KEY).fit_transform(rows)
    assert pairs_recovered(released, sf.ReverseManifold(2.0, KEY).fit(rows)) == 0.0
