"""Fixtures of tests that run audits for other reasons than their strength: attackers that learn for a moment.

Bounds and intervals of an audit hold however little its attackers have learned.
"""

import importlib

import pytest


@pytest.fixture(scope="module")
def few_trees():
    """Classifiers of distinguishing games with a tenth of their trees."""
    games = importlib.import_module("sfumato.audits.distinguishing_game")
    models = games._models

    def small(seed):
        regression, trees = models(seed)
        return [regression, trees.set_params(max_iter=10)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(games, "_models", small)
        yield


@pytest.fixture
def bounds_only(monkeypatch):
    """The standard audit without the attacks that bound neither ε nor δ, and so cannot accuse anybody."""
    from sfumato.audits import Finding

    room, silent = "sfumato.audits.release_audit", Finding("left out", "bounds nothing", "nothing", 0.0, 0.0)
    for name in ("exact_value_leak", "informed_inverter", "noise_across_rows", "posterior_mean"):
        monkeypatch.setattr(f"{room}.{name}", lambda *arguments, **options: silent)
    monkeypatch.setattr(f"{room}.ridge_reconstruction", lambda *arguments, **options: silent)
    for name in ("membership_attacks", "nearest_matching"):
        monkeypatch.setattr(f"{room}.{name}", lambda *arguments, **options: ())


@pytest.fixture(scope="module")
def quick_classifiers():
    """Networks and forests of attacks on models, in this process: a tenth of the passes and of the trees."""
    import sklearn.ensemble
    import sklearn.neural_network

    network, forest = sklearn.neural_network.MLPClassifier, sklearn.ensemble.RandomForestClassifier

    def small_network(layers, *, max_iter, **given):
        return network(layers, max_iter=max_iter // 10, **given)

    def small_forest(trees, **given):
        return forest(trees // 10, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sklearn.neural_network, "MLPClassifier", small_network)
        patch.setattr(sklearn.ensemble, "RandomForestClassifier", small_forest)
        yield


@pytest.fixture(scope="module")
def quick_attackers(quick_classifiers):
    """Small attackers of models, the attack network of shadow models included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.audits.shadow_models.HIDDEN", (32,))
        patch.setattr("sfumato.audits.shadow_models.STEPS", 4)
        yield
