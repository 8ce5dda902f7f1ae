"""The Riemannian VAE: shapes, rows, derivatives, and what its deviation does near and far from the data."""

import pytest
import torch
from surfaces import by_differences

from sfumato.errors import BadInput
from sfumato.publishers.riemannian import RiemannianVAE, curvature
from sfumato.publishers.riemannian.manifold import pullback_metric
from sfumato.publishers.riemannian.riemannian_vae import (
    FLOOR,
    LEAST_VARIANCE,
    Architecture,
    RBFDeviation,
    bandwidths,
)

SHAPES = [(8, 8), (9, 14), (8, 8, 1), (10, 13, 3)]


def made(shape=(8, 8), decoder="dense", latent=3, centres=6):
    generator = torch.Generator().manual_seed(5)
    return RiemannianVAE(Architecture(shape, latent, centres, decoder, width=32), generator=generator)


def drawn(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("decoder", ["dense", "conv"])
@pytest.mark.parametrize("shape", SHAPES)
def test_pictures_of_every_shape_go_in_and_come_out(shape, decoder):
    model = made(shape, decoder)
    mean, scale = model.encode(drawn(5, *shape))
    assert (mean.shape, scale.shape) == ((5, 3), (5, 1))
    assert (scale > 0).all()
    pictures = model.decode(mean)
    assert pictures.shape == (5, *shape)
    assert ((pictures > 0) & (pictures < 1)).all()
    flat, deviation = model.embed(mean)
    assert torch.equal(flat, pictures.flatten(1))
    assert deviation.shape == flat.shape
    assert (deviation > 0).all()


def test_the_largest_pictures_named_are_decoded_by_both_decoders():
    for decoder in ("dense", "conv"):
        assert made((64, 48, 3), decoder).decode(torch.zeros((1, 3))).shape == (1, 64, 48, 3)


@pytest.mark.parametrize("decoder", ["dense", "conv"])
def test_rows_are_independent_and_the_model_is_a_manifold_with_a_curvature(decoder):
    model = made((9, 8, 3), decoder)
    z = drawn(4, 3)
    for whole, part in zip(model.embed(z), model.embed(z[1:2]), strict=True):
        assert torch.allclose(whole[1:2], part, atol=1e-6)
    metric = pullback_metric(model, z)
    assert (torch.linalg.eigvalsh(metric) > 0).all()
    exact, differences = curvature(model, z), by_differences(model, z, 1e-2)
    assert exact.isfinite().all()
    assert torch.allclose(exact, differences, rtol=0.2)


def test_weights_follow_from_the_generator_and_leave_the_global_one_alone():
    before = torch.random.get_rng_state()
    first, second = made().state_dict(), made().state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_pictures_of_another_shape_are_refused():
    with pytest.raises(BadInput, match=r"shape \(9, 8\) were given to a model of \(8, 8\)"):
        made().encode(drawn(2, 9, 8))


@pytest.mark.parametrize("shape", [(8,), (3, 8), (8, 8, 2), (8, 200), (2, 8, 8, 3)])
def test_shapes_that_are_no_pictures_are_refused(shape):
    with pytest.raises(BadInput, match="sides from"):
        Architecture(shape)


@pytest.fixture(scope="module")
def placed():
    generator = torch.Generator().manual_seed(1)
    deviation = RBFDeviation(2, 8, 5, generator=generator)
    means = torch.randn((300, 2), generator=generator)
    deviation.place(means, torch.tensor([0.0, 0.01, 0.02, 0.04, 0.09]), 7)
    return deviation, means


def test_the_first_deviation_is_that_of_the_errors_at_the_means(placed):
    deviation, means = placed
    precision = deviation.precision(means).mean(dim=0) - FLOOR
    expected = 1.0 / (torch.tensor([0.0, 0.01, 0.02, 0.04, 0.09]) + LEAST_VARIANCE)
    assert torch.allclose(precision, expected, rtol=1e-3)


def test_deviation_is_small_at_the_data_and_one_far_away(placed):
    deviation, means = placed
    assert (deviation(means).mean(dim=0) < 0.6).all()
    assert torch.allclose(deviation(torch.full((1, 2), 50.0)), torch.ones((1, 5)))


def test_contributions_are_shares_of_the_precision_that_bumps_add(placed):
    deviation, means = placed
    with torch.no_grad():
        weights = torch.nn.functional.softplus(deviation.raw_weights).mean(dim=1)
        added = deviation.bumps(means) * weights
        expected = added / added.sum(dim=1, keepdim=True)
    assert torch.allclose(deviation.contributions(means), expected, atol=1e-5)
    far = deviation.contributions(torch.full((1, 2), 1e3))
    assert float(far.sum().detach()) == pytest.approx(1.0)


def test_centres_are_where_the_means_are(placed):
    deviation, means = placed
    apart = torch.cdist(deviation.centres.detach(), means).min(dim=1).values
    assert (apart < 0.7).all()
    assert (deviation.bandwidths > 0).all()


def test_bandwidths_are_half_the_mean_distance_to_the_nearest_three():
    line = torch.tensor([[0.0], [1.0], [3.0], [10.0]])
    assert bandwidths(line).tolist() == pytest.approx([7 / 3, 2.0, 2.0, 13 / 3])
    assert bandwidths(torch.zeros((4, 2))).tolist() == [1.0] * 4
    assert bandwidths(torch.zeros((1, 2))).tolist() == [1.0]
