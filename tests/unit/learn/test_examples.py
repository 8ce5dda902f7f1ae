"""Rows that are no array are refused in one sentence, by learners and by fit_private."""

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learn import CertifiedCompact, CompactClassifier, CompactPrivate, PrivateSoftmax, fit_private

RAGGED = [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize("kind", [PrivateSoftmax, CertifiedCompact, CompactClassifier, CompactPrivate])
def test_ragged_rows_are_refused(kind):
    with pytest.raises(BadInput, match=r"^features with rows of different lengths were given: an array is"):
        kind(classes=2).fit(RAGGED * 2, [0, 0, 1, 1])
    with pytest.raises(BadInput, match=r"^labels with rows of different lengths"):
        kind(classes=2).fit([[1.0], [2.0]], RAGGED)


def test_ragged_records_of_a_module_are_refused():
    with pytest.raises(BadInput, match=r"^records with rows of different lengths"):
        fit_private(torch.nn.Linear(2, 2), RAGGED, [0, 1])
