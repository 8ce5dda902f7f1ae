"""Refining certified pictures: post-processing, and nothing but the published pool is seen."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sfumato.errors import BadInput
from sfumato.noise import Secure, Seeded
from sfumato.privacy import RECORD, Guarantee, Neighbours
from sfumato.publishers.certified_publisher import CertifiedPublisher, RefinedPublisher
from sfumato.publishers.publisher import Publisher

DIGITS = {"shape": (8, 8), "classes": 10, "top": 16.0, "kept": 6}


class Smoothing(Publisher):
    """Publishes its pictures in their leading components: the least autoencoder there is."""

    one_to_one = True

    def __init__(self):
        self.randomness = Secure()

    def guarantee(self):
        return Guarantee.nothing(unit=RECORD, neighbours=Neighbours.REPLACE, reason="it shows its data")

    def fit(self, X, y, *, report=None):
        self.seen = (X, y)
        if report is not None:
            report("components", 1.0, {"loss": 0.5})
        flat = X.reshape(len(X), -1)
        components = PCA(12, random_state=0).fit(flat)
        back = components.inverse_transform(components.transform(flat))
        self._made = np.clip(back, 0.0, 16.0).astype(np.float32).reshape(X.shape)
        return self

    def publish(self, n=None):
        n = len(self._made) if n is None else n
        return self._release(self._made[:n], self.seen[1][:n])

    def parameters(self):
        return {"components": 12}


@pytest.fixture(scope="module")
def fitted():
    data = load_digits()
    base = CertifiedPublisher(20.0, randomness=Seeded(1), **DIGITS)
    return RefinedPublisher(base, Smoothing, pool=700).fit(data.images, data.target)


def test_the_guarantee_is_that_of_the_base_and_the_statement_says_why(fitted):
    statement = fitted.publish(5).statement
    assert fitted.guarantee() == fitted.base.guarantee() == statement.proven
    assert statement.mechanism == "RefinedPublisher"
    assert any("post-processing" in note for note in statement.notes)
    assert "reproducible run: not for release" in statement.notes
    assert statement.parameters["refined by"] == "Smoothing"
    assert statement.parameters["refined components"] == 12
    assert statement.parameters["epsilon"] == 20.0


def test_only_published_pictures_reach_the_second_publisher(fitted):
    """The pool is what a twin of the base publishes first, bit by bit."""
    data = load_digits()
    twin = CertifiedPublisher(20.0, randomness=Seeded(1), **DIGITS).fit(data.images, data.target)
    pictures, labels = twin.publish(700).value
    assert np.array_equal(fitted.refiner.seen[0], pictures)
    assert np.array_equal(fitted.refiner.seen[1], labels)


def test_refined_pictures_and_labels_are_those_of_the_second_publisher(fitted):
    pictures, labels = fitted.publish().value
    assert pictures.shape == (700, 8, 8)
    assert pictures.dtype == np.float32
    assert np.array_equal(labels, fitted.refiner.seen[1])
    assert not np.array_equal(pictures, fitted.refiner.seen[0])
    assert np.array_equal(fitted.publish(30).value[0], pictures[:30])


def test_progress_of_both_fits_is_told_in_order():
    data = load_digits()
    told = []
    base = CertifiedPublisher(1.0, randomness=Seeded(1), **DIGITS)
    RefinedPublisher(base, Smoothing, pool=50).fit(
        data.images, data.target, report=lambda stage, share, facts: told.append((stage, share, facts))
    )
    shares = [share for _, share, _ in told]
    assert shares == sorted(shares)
    assert told[-1] == ("components", 1.0, {"loss": 0.5})


def test_what_cannot_be_refined_is_refused():
    base = CertifiedPublisher(1.0, **DIGITS)
    with pytest.raises(BadInput, match="a CertifiedPublisher is needed"):
        RefinedPublisher(Smoothing(), Smoothing)
    with pytest.raises(BadInput, match="a publisher is needed"):
        RefinedPublisher(base, lambda: 3)
    with pytest.raises(BadInput, match="`pool` was 1"):
        RefinedPublisher(base, Smoothing, pool=1)
    with pytest.raises(BadInput, match="call fit"):
        RefinedPublisher(base, Smoothing).publish(3)


class Demanding(Smoothing):
    """Needs as many pictures as it has centres."""

    centres = 90

    def fit(self, X, y, *, report=None):
        if len(X) < self.centres:
            raise BadInput("at least as many pictures as centres are needed.")
        return super().fit(X, y, report=report)


def test_a_pool_is_as_large_as_the_second_publisher_needs():
    data = load_digits()
    base = CertifiedPublisher(20.0, randomness=Seeded(1), **DIGITS)
    with pytest.raises(BadInput, match="`pool` was 89: Demanding needs 90 pictures or more"):
        RefinedPublisher(base, Demanding, pool=89)
    few = RefinedPublisher(base, Demanding).fit(data.images[:50], data.target[:50])
    assert few.publish().value[0].shape == (90, 8, 8)


def test_without_torch_the_default_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sfumato.publishers.curvature_publisher", None)
    with pytest.raises(BadInput, match=r"pip install 'sfumato\[learn\]'"):
        RefinedPublisher(CertifiedPublisher(1.0, **DIGITS))


def test_a_curvature_publisher_refines_certified_pictures():
    pytest.importorskip("torch")
    from sfumato.publishers.curvature_publisher import CurvaturePublisher

    data = load_digits()
    base = CertifiedPublisher(20.0, randomness=Seeded(1), **DIGITS)
    small = {"latent": 2, "centres": 8, "samples": 4, "epochs": (1, 1, 1, 1), "top": 16.0}
    publisher = RefinedPublisher(base, lambda: CurvaturePublisher(**small), pool=64)
    publisher.fit(data.images, data.target)
    pictures, labels = publisher.publish(40).value
    assert pictures.shape == (40, 8, 8)
    assert labels.shape == (40,)
    assert np.isfinite(pictures).all()
    assert pictures.min() >= 0.0
    assert pictures.max() <= 16.0
    assert publisher.statement().proven == base.guarantee()
    assert publisher.parameters()["refined by"] == "CurvaturePublisher"
    assert RefinedPublisher(base, time_budget=9.0).parameters()["refined time_budget"] == 9.0


def test_a_pool_that_the_second_publisher_refuses_is_published_as_it_is():
    """The guarantee was spent: with much noise all pictures of a pool may have one label."""

    class Refusing(Smoothing):
        def fit(self, X, y, *, report=None):
            raise BadInput("all pictures have one label.")

    digits = load_digits()
    publisher = RefinedPublisher(CertifiedPublisher(0.5, **DIGITS, randomness=Seeded(3)), Refusing)
    release = publisher.fit(digits.images, digits.target).publish(7)
    assert release.value[0].shape == (7, 8, 8)
    assert "not refined: the generator could not learn from the published pictures" in release.statement.notes
