"""What learners have in common: what they say before they are fitted, and what they state afterwards."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from sfumato.errors import BadInput
from sfumato.learners import CertifiedCompact, PrivateSoftmax, fit_private
from sfumato.learners.compact import CompactClassifier, CompactPrivate
from sfumato.learners.federated.rounds import FederatedClassifier
from sfumato.noise import Seeded

LEARNERS = [PrivateSoftmax, CertifiedCompact, CompactClassifier, CompactPrivate, FederatedClassifier]


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("name", ["predict", "predict_proba", "tensors"])
def test_before_fit_the_error_is_ours_and_that_of_scikit_learn(kind, name):
    given = () if name == "tensors" else (np.zeros((1, 1)),)
    with pytest.raises(NotFittedError, match="nothing has been fitted") as error:
        getattr(kind(), name)(*given)
    assert isinstance(error.value, BadInput)


ROWS = np.random.default_rng(0).normal(size=(300, 4))
NUMBERS = (ROWS[:, 0] > 0.0).astype(np.int64)
GIVEN = [
    (PrivateSoftmax, {}),
    (PrivateSoftmax, {"sampling": 0.5}),
    (PrivateSoftmax, {"neighbours": "replace"}),
    (CertifiedCompact, {}),
    (CertifiedCompact, {"neighbours": "replace"}),
]


@pytest.mark.parametrize(("kind", "given"), GIVEN)
def test_the_pace_that_is_stated_is_the_one_that_was_used(kind, given):
    given = {"epsilon": 8.0, "classes": 2, "steps": 3, "randomness": Seeded(1), **given}
    fitted = kind(**given).fit(ROWS, NUMBERS)
    pace = fitted.statement().parameters["pace"]
    assert pace == fitted.resolved(300)["pace"] > 0.0
    again = kind(**given, pace=pace).fit(ROWS, NUMBERS)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    assert again.statement().parameters["pace"] == pace
    other = kind(**given, pace=0.5 * pace).fit(ROWS, NUMBERS)
    assert not np.array_equal(other.coef_, fitted.coef_)
    assert fitted.public()["pace"] is None


@pytest.mark.parametrize("kind", [PrivateSoftmax, CertifiedCompact])
def test_statements_say_what_is_public_and_what_must_be_prior(kind):
    assert kind(epsilon=1.0).statement().notes == (
        "the number of records is public",
        "all parameters must not have been learned from these records",
    )
    trained = fit_private(torch.nn.Linear(4, 2), ROWS, NUMBERS, epsilon=8.0, steps=2).statement
    assert trained.notes == (
        "the number of records is public",
        "the weights before training and all parameters must not have been learned from these records",
    )
