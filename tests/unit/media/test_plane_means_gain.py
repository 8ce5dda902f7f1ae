"""At equal unit and ε, ours stays closer to photographs than the best DP-Pix, by a stated margin."""

import hashlib

import numpy as np
import pytest

from real_data import real
from sfumato.media.images.image_baselines import DPPix
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.planes import UNITY, plane_weights
from sfumato.noise import Seeded
from sfumato.utility import psnr, ssim


def middles():
    """Luma of the middle of photographs whose names' SHA-256 begins with an odd byte: not learned from."""
    cv2 = pytest.importorskip("cv2")
    names = [
        path
        for path in sorted(real("photos").glob("*.jpg"))
        if hashlib.sha256(path.name.encode()).digest()[0] % 2
    ]
    found = []
    for path in names:
        luma = cv2.imread(str(path))[:, :, ::-1] @ plane_weights(3)[0] / UNITY
        top, left = (luma.shape[0] - 224) // 2, (luma.shape[1] - 224) // 2
        found.append(np.rint(luma[top : top + 224, left : left + 224]).astype(np.uint8))
    return np.stack(found)


def scores(originals, mechanism):
    value = mechanism.release(originals).value
    return np.array([measure(originals, value, data_range=255.0).mean() for measure in (psnr, ssim)])


def gained(originals, epsilon, restore):
    shape = originals.shape[1:]
    best = np.max(
        [
            scores(originals, DPPix(epsilon, "pixels(16)", size, shape=shape, randomness=Seeded(1)))
            for size in (4, 8, 16, 32)
        ],
        axis=0,
    )
    made = PlaneMeans(epsilon, unit="pixels(16)", restore=restore, shape=shape, randomness=Seeded(2))
    return scores(originals, made) - best


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_photographs_stay_closer_than_under_the_best_dp_pix(epsilon):
    """Mean PSNR and mean SSIM of 37 photographs; seeded, so there is no false alarm."""
    decibels, likeness = gained(middles(), epsilon, "learned")
    assert decibels >= 1.5
    assert likeness >= 0.05


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_photograph_that_is_always_at_hand_stays_closer_too(epsilon):
    """Four crops of the cameraman, whom neither the statistics nor the network have seen; seeded."""
    data = pytest.importorskip("skimage.data")
    camera = data.camera()
    crops = np.stack([camera[i : i + 224, j : j + 224] for i in (0, 288) for j in (0, 288)])
    decibels, likeness = gained(crops, epsilon, "learned")
    assert decibels >= 1.5
    assert likeness >= 0.02
    assert gained(crops, epsilon, "wiener")[0] >= 0.5
