"""Learners to audit: one with Gaussian noise whose ε is known exactly, and ones that keep their records."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits

from sfumato.privacy import Guarantee, Neighbours

DIGITS = load_digits()
# Rows of length 1, as features are.
FEATURES = DIGITS.data / np.linalg.norm(DIGITS.data, axis=1, keepdims=True)
LABELS = DIGITS.target.astype(np.int64)


class NoisySums:
    """Class sums of features of length 1 or less, with Gaussian noise: one Gaussian mechanism, exactly.

    ``mu`` is what it claims and ``excess`` by how much its noise is too small. The sums do not depend on the
    number of records, so the same mechanism has a guarantee for each kind of neighbours.
    """

    def __init__(self, mu, neighbours, seed, excess=1.0):
        self.mu, self.neighbours, self.seed, self.excess = mu, Neighbours(neighbours), seed, excess

    def guarantee(self):
        return Guarantee.gaussian(1.0 / self.mu, neighbours=self.neighbours, at_delta=1e-5)

    def fit(self, X, y):
        sensitivity = 2.0 if self.neighbours is Neighbours.REPLACE else 1.0
        noise = np.random.default_rng([self.seed, 77]).standard_normal((X.shape[1], 10))
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
        self.weights = X.T @ np.eye(10)[y] + sensitivity / (self.mu * self.excess) * noise
        return self

    def predict_proba(self, X):
        return softmax(X @ self.weights, axis=1)

    def tensors(self):
        return {"weights": self.weights}


class NullSums(NoisySums):
    """The same, told of null records: they add nothing, so that there is nothing to do about them."""

    def fit(self, X, y, *, records=None):
        self.records = records
        return super().fit(X, y)


class Nearest:
    """Answers with the label of the nearest record it was given: it keeps everything and claims nothing."""

    def fit(self, X, y):
        self.rows, self.labels = X, y
        return self

    def predict_proba(self, X):
        apart = ((X[:, None] - self.rows[None]) ** 2).sum(axis=2)
        return 0.9 * np.eye(10)[self.labels[apart.argmin(axis=1)]] + 0.01
