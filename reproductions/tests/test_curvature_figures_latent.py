"""Figures 4, 5 and 6 from a small model of the digits of scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.publishers.riemannian import Architecture, Obfuscator, RiemannianVAE, curvature
from sfumato_reproductions.curvature_publication.geodesic_figure import geodesic_figure
from sfumato_reproductions.curvature_publication.latent_figure import latent_figure
from sfumato_reproductions.curvature_publication.strategies_figure import strategies_figure


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    rows = np.random.default_rng(0).permutation(len(data.images))[:240]
    return (data.images[rows] / 16.0).astype(np.float32), data.target[rows]


def model_of(latent, pictures):
    """Weights as they are drawn, scaled so that the decoder bends, and centres among the records."""
    architecture = Architecture((8, 8), latent=latent, centres=12, width=32)
    model = RiemannianVAE(architecture, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        for layer in model.mean_network:
            if isinstance(layer, torch.nn.Linear):
                layer.weight.mul_(2.0)
        given = torch.as_tensor(pictures)
        features = model.mean_head(model.reader(torch.flatten(given, 1)))
        model.normalised.running_mean.copy_(features.mean(dim=0))
        model.normalised.running_var.copy_(features.var(dim=0))
        model.deviation.place(model.means(given), torch.full((64,), 0.05), 0)
    return model


@pytest.fixture(scope="module")
def plane(digits):
    return model_of(2, digits[0])


@pytest.fixture(scope="module")
def space(digits):
    return model_of(5, digits[0])


def saved(drawing, folder):
    drawing.save(folder)
    assert drawing.file == f"curvature-publication-figure-{drawing.number}.png"
    json.dumps(drawing.numbers)
    return (folder / drawing.file).stat().st_size


def test_figure_4_the_geodesic_is_no_longer_than_the_straight_line(plane, digits, tmp_path) -> None:
    drawing = latent_figure(plane, *digits)
    assert saved(drawing, tmp_path) > 50_000
    numbers = drawing.numbers
    assert numbers["length"]["geodesic"] <= numbers["length"]["straight line"] * (1.0 + 1e-6)
    assert numbers["classes"] == [2, 6]
    assert {len(along) for along in numbers["curvature along"].values()} == {60}
    # Both ways begin and end at the same records.
    geodesic, line = numbers["curvature along"].values()
    assert geodesic[0] == pytest.approx(line[0], rel=1e-4)
    assert geodesic[-1] == pytest.approx(line[-1], rel=1e-4)


def test_figure_4_medians_of_classes_and_boundaries(plane, digits) -> None:
    pictures, labels = digits
    numbers = latent_figure(plane, pictures, labels, first=1, last=0).numbers
    own = curvature(plane, plane.means(torch.as_tensor(pictures))).numpy()
    assert numbers["median curvature of class"]["4"] == pytest.approx(np.median(own[labels == 4]), rel=1e-5)
    assert 0.0 < numbers["share at boundaries"] <= 1.0


def test_figure_4_without_boundaries_says_so(plane, digits) -> None:
    pictures, labels = digits
    numbers = latent_figure(plane, pictures, np.zeros(len(labels)), first=0, last=0).numbers
    assert numbers["share at boundaries"] == 0.0
    assert numbers["median curvature at boundaries"] is None


def test_figure_4_refuses_other_dimensions_and_missing_classes(plane, space, digits) -> None:
    with pytest.raises(BadInput, match="needs a model of 2 latent dimensions; this one has 5"):
        latent_figure(space, *digits)
    with pytest.raises(BadInput, match="records of class 12, and there is none"):
        latent_figure(plane, *digits, last=12)


def test_figure_5_counts_centres_of_the_same_class(space, digits, tmp_path) -> None:
    pictures, labels = digits
    drawing = geodesic_figure(Obfuscator(space, lambda z: curvature(space, z)), pictures, labels)
    assert saved(drawing, tmp_path) > 50_000
    assert [shown["class"] for shown in drawing.numbers["shown"]] == [0, 1, 3, 4, 5, 6, 8, 9]
    shares = drawing.numbers["the same, by class"]
    counts = {label: int((labels == int(label)).sum()) for label in shares}
    total = sum(shares[label] * counts[label] for label in shares) / len(labels)
    assert drawing.numbers["centre in the class of its record"] == pytest.approx(total)


def test_figure_5_with_one_class_every_centre_is_of_it(space, digits) -> None:
    numbers = geodesic_figure(Obfuscator(space, lambda z: z[:, 0]), digits[0], np.full(240, 7)).numbers
    assert numbers["centre in the class of its record"] == 1.0
    assert len(numbers["shown"]) == 1
    with pytest.raises(BadInput, match="more than 10 records; 4 were given"):
        geodesic_figure(Obfuscator(space, lambda z: z[:, 0]), digits[0][:4], digits[1][:4])


def test_figure_6_says_how_far_every_strategy_moves(space, digits, tmp_path) -> None:
    def rising(z):
        """Higher the nearer to a centre: ours stays, the highest is the centre itself."""
        return -(z[:, None] - space.centres.detach()).norm(dim=2).amin(dim=1)

    drawing = strategies_figure(space, rising, *digits, least=4)
    assert saved(drawing, tmp_path) > 5_000
    numbers = drawing.numbers
    assert numbers["linear"]["mean sample taken"] == 10.0
    assert (
        numbers["ours"]["mean sample taken"] <= 2.0 < 15.0 < numbers["highest curvature"]["mean sample taken"]
    )
    assert numbers["ours from sample 4 on"]["unmoved"] == 0.0
    order = ("ours", "ours from sample 4 on", "linear", "highest curvature")
    ways = [numbers[name]["way"] for name in order]
    changes = [numbers[name]["pixel change"] for name in order]
    assert ways == sorted(ways)
    assert changes == sorted(changes)
    assert f"{numbers['ours']['unmoved']:.0%}" in drawing.caption


def test_figure_6_unmoved_records_have_unmoved_pictures(space, digits) -> None:
    numbers = strategies_figure(space, lambda z: torch.ones(len(z)), *digits).numbers
    assert list(numbers) == ["linear", "highest curvature", "ours", "decoded, not moved"]
    assert numbers["ours"]["unmoved"] == numbers["ours"]["unmoved peaks"] == 1.0
    assert numbers["ours"]["way"] == 0.0
    assert numbers["ours"]["pixel change"] == 0.0
