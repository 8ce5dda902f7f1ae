"""Models to attack: one that remembers its records, one that hardly does, one that cannot."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sfumato.audits.predictions import Predictions

CLASSES = 4
CERTAIN = 1.0 - 1e-6  # the confidence of intervals that may miss in one run of a million


@cache
def records(count: int, seed: int = 0):
    """Records of one distribution with noisy labels, so that only a model that remembers gets all right."""
    X, y = make_classification(
        count,
        12,
        n_informative=8,
        n_classes=CLASSES,
        n_clusters_per_class=1,
        flip_y=0.15,
        random_state=seed,
    )
    return X, y


def split(model, X, y, members: int) -> tuple[Predictions, Predictions]:
    """The model's answers about the first records, on which it is trained, and about the others."""
    model.fit(X[:members], y[:members])
    answers = model.predict_proba(X)
    return Predictions(answers[:members], y[:members]), Predictions(answers[members:], y[members:])


@cache
def forest(members: int = 600, others: int = 600) -> tuple[Predictions, Predictions]:
    return split(RandomForestClassifier(30, random_state=0), *records(members + others), members)


@cache
def tree(members: int = 600, others: int = 600) -> tuple[Predictions, Predictions]:
    return split(DecisionTreeClassifier(random_state=0), *records(members + others), members)


@cache
def regression(members: int = 600, others: int = 600) -> tuple[Predictions, Predictions]:
    return split(LogisticRegression(C=0.01, max_iter=500), *records(members + others), members)


@cache
def exchangeable(members: int = 800, others: int = 400, seed: int = 1) -> tuple[Predictions, Predictions]:
    """Answers of a model that was trained on neither group: there is nothing to find."""
    X, y = records(members + others + 500, seed)
    model = RandomForestClassifier(30, random_state=seed).fit(X[:500], y[:500])
    answers = Predictions(model.predict_proba(X[500:]), y[500:])
    return answers.rows(np.arange(members)), answers.rows(np.arange(members, members + others))


class Network:
    """A small torch network with the two methods of a scikit-learn classifier."""

    def __init__(self, seed: int, epochs: int = 150) -> None:
        self.seed, self.epochs = seed, epochs

    def fit(self, X, y):
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            self.net = torch.nn.Sequential(
                torch.nn.Linear(X.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES)
            )
            inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
            optimiser = torch.optim.Adam(self.net.parameters(), lr=0.01)
            for _ in range(self.epochs):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(self.net(inputs), labels).backward()
                optimiser.step()
        return self

    def predict_proba(self, X):
        import torch

        with torch.no_grad():
            return torch.softmax(self.net(torch.tensor(X, dtype=torch.float64).float()), dim=1).numpy()


@cache
def network(members: int = 600, others: int = 600) -> tuple[Predictions, Predictions]:
    return split(Network(0), *records(members + others), members)
