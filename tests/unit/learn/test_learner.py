"""What all learners have in common: asked before they are fitted, they say so in scikit-learn's way too."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sfumato.errors import BadInput
from sfumato.learn import CertifiedCompact, CompactClassifier, CompactPrivate, PrivateSoftmax
from sfumato.learn.federated.classifier import FederatedClassifier

LEARNERS = [PrivateSoftmax, CertifiedCompact, CompactClassifier, CompactPrivate, FederatedClassifier]


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("name", ["predict", "predict_proba", "tensors"])
def test_before_fit_the_error_is_ours_and_that_of_scikit_learn(kind, name):
    given = () if name == "tensors" else (np.zeros((1, 1)),)
    with pytest.raises(NotFittedError, match="nothing has been fitted") as error:
        getattr(kind(), name)(*given)
    assert isinstance(error.value, BadInput)
