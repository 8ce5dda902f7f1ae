"""Convolution by real matrices gives what the Fourier transform gives."""

import numpy as np
import pytest
import torch

from sfumato.learners.scattering import Convolution, Scattering

RNG = np.random.default_rng(9)


@pytest.mark.parametrize(("shape", "factor"), [((12, 12), 1), ((12, 16), 2), ((16, 8), 4), ((24, 36), 6)])
def test_moduli_are_those_of_the_fourier_transform(shape, factor) -> None:
    """For any real transform of a filter, not of wavelets alone."""
    filters, planes = RNG.normal(size=(3, *shape)), RNG.normal(size=(*shape, 5))
    waves = np.fft.ifft2(np.fft.fft2(planes, axes=(0, 1))[None] * filters[..., None], axes=(1, 2))
    expected = np.abs(waves)[:, ::factor, ::factor].transpose(1, 2, 0, 3)
    found = Convolution(filters, factor).moduli(torch.from_numpy(planes.astype(np.float32)))
    np.testing.assert_allclose(found.numpy().reshape(expected.shape), expected, atol=1e-5 * expected.max())


def test_padding_is_applied_before_the_convolution() -> None:
    filters, planes = RNG.normal(size=(2, 8, 12)), RNG.normal(size=(5, 7, 3)).astype(np.float32)
    padding = RNG.normal(size=(8, 5)), RNG.normal(size=(12, 7))
    padded = np.einsum("yr,xc,rcm->yxm", *padding, planes).astype(np.float32)
    expected = Convolution(filters, 2).moduli(torch.from_numpy(padded))
    found = Convolution(filters, 2, padding).moduli(torch.from_numpy(planes))
    np.testing.assert_allclose(found, expected, atol=1e-5 * float(expected.max()))


@pytest.mark.parametrize(("shape", "scales"), [((10, 13), 2), ((16, 16), 3)])
def test_scattering_is_what_fourier_transforms_give(shape, scales) -> None:
    """The transform written out once more with complex numbers, in double precision."""
    transform, pictures = Scattering(shape, scales, 4), RNG.random((3, *shape))
    whole = [((side + 2**scales) // 2**scales + 1) * 2**scales for side in shape]
    edges = [((all_ - side) // 2, (all_ - side + 1) // 2) for all_, side in zip(whole, shape, strict=True)]
    padded = np.pad(pictures, [(0, 0), *edges], mode="reflect")
    frequencies = [2.0 * np.pi * np.fft.fftfreq(side) for side in whole]
    width = 0.8 * 2 ** (scales - 1)
    low = [
        sum(np.exp(-(((f + 2 * np.pi * turn) * width) ** 2) / 2) for turn in (-1, 0, 1)) for f in frequencies
    ]

    def averages(planes, scale):
        """Gaussian means at every 2^scales-th pixel, of planes sampled every 2^scale pixels."""
        full = np.zeros((len(planes), *whole))
        full[:, :: 2**scale, :: 2**scale] = planes * 4**scale
        smooth = np.fft.ifft2(np.fft.fft2(full) * np.outer(*low)).real
        down, across = (
            slice(edge[0], edge[0] + side, 2**scales) for edge, side in zip(edges, shape, strict=True)
        )
        return smooth[:, down, across]

    def moduli(planes, spectrum, thin):
        return np.abs(np.fft.ifft2(np.fft.fft2(planes) * spectrum))[:, ::thin, ::thin]

    first, second = [], []
    for scale, waves in enumerate(transform._wavelets):
        for wave in waves:
            once = moduli(padded, wave, 2**scale)
            first.append(averages(once, scale))
    for scale, waves in enumerate(transform._wavelets):
        for coarser in range(scale + 1, scales):
            for wave in waves:
                once = moduli(padded, wave, 2**scale)
                for other in transform._wavelets[coarser]:
                    narrow = other.reshape(2**scale, once.shape[1], 2**scale, -1).sum(axis=(0, 2))
                    second.append(averages(moduli(once, narrow, 2 ** (coarser - scale)), coarser))
    expected = np.stack([averages(padded, 0), *first, *second], axis=1)
    np.testing.assert_allclose(transform.transform(pictures), expected, atol=1e-5)


def test_the_smallest_pictures_are_mirrored_more_than_once() -> None:
    assert np.isfinite(Scattering((4, 4)).transform(RNG.random((2, 4, 4)))).all()
