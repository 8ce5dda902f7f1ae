"""Rows that are no array, and parameters that are no numbers, are refused in one sentence."""

import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learners import CertifiedCompact, PrivateSoftmax, fit_private
from sfumato.learners.compact import CompactClassifier, CompactPrivate

RAGGED = [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize("kind", [PrivateSoftmax, CertifiedCompact, CompactClassifier, CompactPrivate])
def test_ragged_rows_are_refused(kind):
    with pytest.raises(BadInput, match=r"^features with rows of different lengths were given: an array is"):
        kind(classes=2).fit(RAGGED * 2, [0, 0, 1, 1])
    with pytest.raises(BadInput, match=r"^labels with rows of different lengths"):
        kind(classes=2).fit([[1.0], [2.0]], RAGGED)


@pytest.mark.parametrize("kind", [PrivateSoftmax, CertifiedCompact])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *(
            ({"classes": given}, r"^`classes` was .*: a whole number, 2 or more")
            for given in ("a", 2.5, None)
        ),
        *(({"classes": given}, rf"^`classes` was {given}: a whole number") for given in (-1, 0, 1, True)),
        *(({"momentum": given}, r"^`momentum` must lie between 0 and 1") for given in ("x", None, [0.5])),
        ({"momentum": 1.0}, r"^`momentum` was 1\.0: it must lie below 1"),
        *(({"steps": given}, r"^`steps` was .*: a whole number, 1 or more") for given in ("x", None, 2.5, 0)),
    ],
)
def test_parameters_that_are_no_numbers_are_refused(kind, change, sentence):
    made = kind(epsilon=1.0, **change)
    for question in (
        made.guarantee,
        lambda: made.fit([[1.0], [2.0]], [0, 1]),
        *(() if "momentum" in change else (lambda: made.forewarnings(2, 1),)),
    ):
        with pytest.raises(BadInput, match=sentence):
            question()


def test_ragged_records_of_a_module_are_refused():
    with pytest.raises(BadInput, match=r"^records with rows of different lengths"):
        fit_private(torch.nn.Linear(2, 2), RAGGED, [0, 1], epsilon=1.0)
