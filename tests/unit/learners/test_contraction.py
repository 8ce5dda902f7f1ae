"""The contraction network: where it starts, that it follows the compactness loss, and that it contracts."""

import numpy as np
import pytest
import torch

from sfumato.errors import BadInput
from sfumato.learners.compact.contraction import ContractionNetwork, train_contraction

RNG = np.random.default_rng(8)
MEANS = RNG.normal(size=(3, 12))
LABELS = np.arange(120) % 3
X = 7.0 * (MEANS[LABELS] + 0.5 * RNG.normal(size=(120, 12))) + 100.0


def untrained(features=X, *, dimension=None, whiten=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return ContractionNetwork.of_features(
        features, width=32, dimension=dimension, whiten=whiten, generator=generator
    )


def trained(network, features=X, **options):
    given = {"bandwidth": 0.5, "epochs": 60, "batch": 64, "rate": 0.1, **options}
    anchors = network.in_units(features[:30])
    losses = train_contraction(
        network,
        features,
        LABELS,
        anchors,
        LABELS[:30],
        generator=torch.Generator().manual_seed(1),
        **given,
    )
    return network, losses


def test_it_starts_as_the_identity_in_units_of_the_features() -> None:
    network = untrained()
    np.testing.assert_allclose(network.contract(X), X, rtol=1e-6)
    units = network.in_units(X).astype(np.float64)
    np.testing.assert_allclose(units.mean(axis=0), 0.0, atol=1e-6)
    assert np.square(units).sum(axis=1).mean() == pytest.approx(1.0, rel=1e-6)


def test_the_first_step_follows_the_gradient_of_the_compactness_loss() -> None:
    """The loss written out, −h² mean log (1/|A|) Σ K_h, and torch's gradient of it."""
    network, h, rate = untrained(), 0.4, 0.05
    with torch.no_grad():
        network.outer.normal_(generator=torch.Generator().manual_seed(3)).mul_(0.01)
    peer = untrained()
    peer.load_state_dict(network.state_dict())
    anchors, labels = torch.from_numpy(peer.in_units(X[:30])), torch.from_numpy(LABELS)
    moved = peer(torch.from_numpy(peer.in_units(X)))
    kernels = torch.exp(-torch.cdist(moved, anchors).square() / (2 * h * h))
    same = (labels[:, None] == labels[None, :30]).float()
    loss = -(h**2) * torch.log((kernels * same).sum(1) / same.sum(1)).mean()
    loss.backward()
    before = [parameter.detach().clone() for parameter in network.parameters()]
    _, losses = trained(network, bandwidth=h, epochs=1, batch=4096, rate=rate)
    assert losses[0] * h**2 == pytest.approx(loss.item(), rel=1e-4)
    for old, new, known in zip(before, network.parameters(), peer.parameters(), strict=True):
        torch.testing.assert_close(old - new, rate * known.grad, rtol=2e-3, atol=1e-6)


def test_training_contracts_every_class_and_lowers_the_loss() -> None:
    network, losses = trained(untrained())
    assert losses[-1] < 0.6 * losses[0]
    moved = network.contract(X)
    for kind in range(3):
        before, after = X[kind == LABELS], moved[kind == LABELS]
        assert after.std(axis=0).sum() < 0.5 * before.std(axis=0).sum()
        assert np.linalg.norm(after.mean(axis=0) - before.mean(axis=0)) < np.linalg.norm(before.std(axis=0))


@pytest.mark.parametrize(("dimension", "whiten"), [(None, False), (4, False), (None, True), (4, True)])
def test_rescaled_features_are_contracted_alike(dimension, whiten) -> None:
    large, _ = trained(untrained(dimension=dimension, whiten=whiten))
    small, _ = trained(untrained(0.05 * X, dimension=dimension, whiten=whiten), 0.05 * X)
    moved = large.contract(X)
    assert moved.shape == (120, dimension or 12)
    np.testing.assert_allclose(small.contract(0.05 * X), 0.05 * moved, rtol=1e-4, atol=1e-4)


def test_principal_axes_keep_what_varies_most() -> None:
    flat = np.zeros((120, 6))
    flat[:, [1, 4]] = RNG.normal(size=(120, 2)) * [3.0, 1.0]
    network = untrained(flat, dimension=2)
    np.testing.assert_allclose(np.linalg.norm(network.on_axes(flat), axis=1), np.linalg.norm(flat, axis=1))
    np.testing.assert_allclose(network.contract(flat), network.on_axes(flat), rtol=1e-4, atol=1e-5)


def test_whitened_features_are_as_long_and_vary_alike_unless_they_hardly_vary() -> None:
    features = RNG.normal(size=(5000, 3)) * [5.0, 1.0, 0.01] + 3.0
    network = untrained(features, whiten=True)
    powers = np.linalg.eigvalsh(np.cov(network.in_units(features).T))
    assert powers.sum() == pytest.approx(1.0, rel=1e-3)
    # Variances v become v/(v + r) up to a factor, r a tenth of their mean.
    ridge = 0.1 * (25.0 + 1.0 + 1e-4) / 3
    expected = np.array([v / (v + ridge) for v in (1e-4, 1.0, 25.0)])
    np.testing.assert_allclose(powers, expected / expected.sum(), rtol=0.2)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_features_of_any_size_have_a_scale(scale) -> None:
    assert untrained(scale * X).scale == pytest.approx(scale * untrained().scale, rel=1e-9)


def test_a_kept_network_contracts_to_the_same_bits() -> None:
    network, _ = trained(untrained(dimension=5))
    again = ContractionNetwork.restored(network.tensors())
    np.testing.assert_array_equal(again.contract(X), network.contract(X))
    with pytest.raises(KeyError, match="outer"):
        ContractionNetwork.restored({k: v for k, v in network.tensors().items() if k != "outer"})


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(BadInput, match="training diverged in epoch"):
        trained(untrained(), rate=1000.0)
    with pytest.raises(BadInput, match="all records have the same features"):
        untrained(np.ones((5, 3)))
    with pytest.raises(BadInput, match="`dimension` was 13: the features have only 12"):
        untrained(dimension=13)
    with pytest.raises(BadInput, match="`dimension` was 0: a whole number, 1 or more"):
        untrained(dimension=0)
