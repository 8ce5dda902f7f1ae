"""Fixtures of tests that run audits for other reasons than their strength: attackers that learn for a moment.

Bounds and intervals of an audit hold however little its attackers have learned.
"""

import pytest


@pytest.fixture(scope="module")
def few_trees():
    """Classifiers of distinguishing games with a tenth of their trees."""
    from sfumato.audits import distinguishing_game

    models = distinguishing_game._models

    def small(seed):
        regression, trees = models(seed)
        return [regression, trees.set_params(max_iter=10)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinguishing_game, "_models", small)
        yield


@pytest.fixture(scope="module")
def quick_attackers():
    """Networks and forests of attacks on models, in this process: a tenth of the passes and of the trees."""
    import sklearn.ensemble
    import sklearn.neural_network

    from sfumato.audits import shadow_models

    network, forest = sklearn.neural_network.MLPClassifier, sklearn.ensemble.RandomForestClassifier

    def small_network(layers, *, max_iter, **given):
        return network(layers, max_iter=max_iter // 10, **given)

    def small_forest(trees, **given):
        return forest(trees // 10, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sklearn.neural_network, "MLPClassifier", small_network)
        patch.setattr(sklearn.ensemble, "RandomForestClassifier", small_forest)
        patch.setattr(shadow_models, "HIDDEN", (32,))
        patch.setattr(shadow_models, "STEPS", 4)
        yield
